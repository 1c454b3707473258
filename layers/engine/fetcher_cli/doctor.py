"""`fetcher doctor`: looks at everything that a job needs, and says what is missing and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fetcher import __version__, engines
from fetcher_cli import aws, console
from fetcher_cli.api import Api, connect
from fetcher_cli.errors import CliError, FailedError, RefusedError, UnreachableError
from fetcher_cli.options import Api as ApiOption
from fetcher_cli.options import Iam, Stack
from fetcher_cli.places import Resources


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `todo` is empty when all is well."""

    name: str
    seen: str
    todo: str = ""


def doctor(
    stack: Stack = None,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """Check API, tables, queues, bucket and drivers; exit 1 if anything is missing."""
    checks = list(_all(stack, api, iam=iam))
    for check in checks:
        console.out().print(f"{'missing' if check.todo else 'ok':<8} {check.name}: {check.seen}")
        if check.todo:
            console.out().print(f"         → {check.todo}")
    missing = [check.name for check in checks if check.todo]
    if missing:
        raise FailedError(f"{len(missing)} of {len(checks)} checks failed: {', '.join(missing)}")


def kinds() -> None:
    """List the kinds of source that this installation can read."""
    for kind in engines.kinds():
        console.raw(kind)


def drivers() -> Iterator[Check]:
    """Import every engine with its driver, as a job would."""
    for kind in engines.kinds():
        try:
            engines.engine(kind)
        except Exception as error:  # a driver may break in any way while it is loaded
            again = 'run `pip install ".[cli]"` in the checkout again'
            yield Check(f"driver {kind}", f"cannot be loaded: {error}", again)
        else:
            yield Check(f"driver {kind}", "can be loaded")


def _all(stack: str | None, api: str | None, *, iam: bool) -> Iterator[Check]:
    yield from drivers()
    try:
        resources = aws.resources(stack)
        client = connect(api or (resources.api if resources and stack else None), iam=iam)
    except CliError as error:
        yield Check("address", str(error), "see README, section “Command line”")
        return
    with client:
        yield from _service(client)
    if resources is not None:
        yield from _aws(resources)


def _service(client: Api) -> Iterator[Check]:
    try:
        version = client.get("/version").json()["version"]
    except (CliError, ValueError, KeyError) as error:
        yield Check("API", f"{client.url}: {error}", "is the address right? Start a local stack with `make up`")
        return
    differs = "" if version == __version__ else f"; this command line is {__version__}"
    yield Check("API", f"{client.url} answers, version {version}{differs}")
    yield _access(client)
    yield from _behind(client)


def _access(client: Api) -> Check:
    try:
        client.get("/v1/fetcher?limit=1")
    except RefusedError as error:
        return Check("access", str(error).splitlines()[0], "set FETCHER_TOKEN, or pass --iam")
    except UnreachableError as error:
        return Check("access", str(error).splitlines()[0], "look into the log of submit")
    return Check("access", "the caller is let in")


def _behind(client: Api) -> Iterator[Check]:
    """Ask the service what it can reach itself; a 503 brings the same list as a 200."""
    try:
        checks = client.ready()
    except (CliError, ValueError, KeyError) as error:
        yield Check("readiness", str(error).splitlines()[0], "look into the log of submit")
        return
    for name, check in sorted(checks.items()):
        up = check["status"] == "up"
        yield Check(
            f"service → {name}", f"{check['status']} ({check['latencyMs']} ms)", "" if up else _service_todo(name)
        )


def _service_todo(name: str) -> str:
    return f"submit cannot reach it: does {name} exist, may its role use it, and does its VPC have a way to AWS?"


def _aws(at: Resources) -> Iterator[Check]:
    """Look at each resource with the caller's own eyes."""
    for table in at.tables:
        yield _seen(f"table {table}", partial(_table, aws.client(at, "dynamodb"), table))
    for queue in at.queues:
        yield _seen(f"queue {_last(queue)}", partial(_queue, aws.client(at, "sqs"), queue, dead=queue in at.dead))
    yield _seen(f"bucket {at.bucket}", partial(_bucket, aws.client(at, "s3"), at.bucket))
    yield _seen(f"bus {at.bus}", partial(_bus, aws.client(at, "events"), at.bus))


def _seen(name: str, look: Callable[[], tuple[str, str]]) -> Check:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as late as boto3

    try:
        return Check(name, *look())
    except (BotoCoreError, ClientError) as error:
        return Check(name, str(error), "deploy the stack again, or ask for the right to read it")


def _table(client: Any, name: str) -> tuple[str, str]:
    status = client.describe_table(TableName=name)["Table"]["TableStatus"]
    return str(status), "" if status in {"ACTIVE", "UPDATING"} else "wait until it is ACTIVE"


def _queue(client: Any, url: str, *, dead: bool) -> tuple[str, str]:
    wanted = "ApproximateNumberOfMessages"
    count = int(client.get_queue_attributes(QueueUrl=url, AttributeNames=[wanted])["Attributes"][wanted])
    return f"{count} messages", "see docs/operations.md, “Dead letters”" if dead and count else ""


def _bucket(client: Any, name: str) -> tuple[str, str]:
    client.head_bucket(Bucket=name)
    return "exists", ""


def _bus(client: Any, name: str) -> tuple[str, str]:
    client.describe_event_bus(Name=name)
    return "exists", ""


def _last(url: str) -> str:
    return url.rsplit("/", 1)[-1]
