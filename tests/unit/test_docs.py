"""The documentation is held against the code: nothing is missing, no link leads nowhere, snippets run."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from fetcher.core import lifecycle
from fetcher.core.canonical import strict_loads
from fetcher.core.request import parse
from fetcher.engines._postgresql.values import TYPES
from fetcher.model import OPERATORS, Limits
from fetcher_cli.app import app as command_line
from infra.local.places import ROOT
from tests.metrics import ENDED, WRITTEN, written

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"])
README, DOCS = ROOT / "README.md", ROOT / "docs"
KEY = bytes(range(32))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@cache
def text(page: Path) -> str:
    return page.read_text()


def code_words(page: Path) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", FENCE.sub("", text(page))))


def rows(page: Path, first: str) -> Iterator[list[str]]:
    """Yield the cells of every table whose header begins with `first`."""
    lines = iter(text(page).splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                yield [cell.strip() for cell in row.strip("|").split(" | ")]


# --- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", text(page))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), *ROOT.glob("[A-Z]*.md")], ids=lambda page: page.name)
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    assert page == README or f"({page.relative_to(ROOT)}" in text(README)


def test_the_tree_of_the_readme_exists() -> None:
    block = re.search(r"## Where things are\n\n```\n(.*?)```", text(README), re.DOTALL)
    assert block is not None
    named = [line.split()[0] for line in block[1].splitlines()]
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert len(named) > 10


# --- commands, targets, variables


def commands() -> Iterator[tuple[str, set[str]]]:
    """Yield every command with its options."""
    group: Any = typer.main.get_command(command_line)
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found = {f"{name} {sub}": one for sub, one in inner.items()} if inner else {name: command}
        for words, one in found.items():
            yield words, {option for parameter in one.params for option in parameter.opts}


COMMANDS = dict(commands())
COMMAND = re.compile(r"(?<!from )\bfetcher ((?:connections )?[a-z][a-z-]+)([^|`\n]*)")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_in_the_readme(command: str) -> None:
    assert any(f"fetcher {command}" in word for row in rows(README, "command") for word in row[:1])


def test_the_documented_commands_and_options_exist() -> None:
    """In text and in blocks, where a line may go on behind a backslash."""
    shown = [
        (page.name, *found)
        for page in PAGES
        for found in COMMAND.findall("\n".join([*code_words(page), *FENCE.findall(text(page))]).replace("\\\n", " "))
    ]
    assert {command for _, command, _ in shown} > {"connections create", "submit", "derive-key"}
    for page, words, rest in shown:
        command = words if words in COMMANDS else words.split()[0]
        assert command in COMMANDS, f"{page}: fetcher {words}"
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= COMMANDS[command] | {"--help"}, f"{page}: {words}{rest}"


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_make_target_is_documented_and_every_documented_one_exists() -> None:
    assert targets() - {"help"} <= set(re.findall(r"\bmake ([a-z]+)\b", text(README)))
    quoted = {name for page in PAGES for word in code_words(page) for name in re.findall(r"^make ([a-z]+)", word)}
    assert quoted <= targets()


def variables(*folders: str) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r'"((?:FETCHER|ENGINE|POWERTOOLS)_[A-Z_]+)"', path.read_text()))
    return found


@pytest.mark.parametrize("variable", sorted(variables("layers/engine", "functions")))
def test_every_environment_variable_is_in_the_readme(variable: str) -> None:
    assert any(variable in row[0] for row in rows(README, "variable"))


def test_every_documented_variable_is_read_somewhere() -> None:
    template = (ROOT / "template.yaml").read_text()
    named = {word for row in rows(README, "variable") for word in re.findall(r"`([A-Z_]+)`", row[0])}
    read = variables("layers/engine", "functions", "infra")
    assert {name for name in named if name not in read and name not in template} == set()


def template() -> dict[str, Any]:
    """Read the template; intrinsics are not of interest here."""

    class Loader(yaml.SafeLoader):
        """Takes tags such as `!Ref` as nothing."""

    Loader.add_multi_constructor("!", lambda *_: None)
    loaded: dict[str, Any] = yaml.load((ROOT / "template.yaml").read_text(), Loader)  # noqa: S506 - a safe loader
    return loaded


def test_every_parameter_that_is_named_exists() -> None:
    known = set(template()["Parameters"])
    named = {word for row in rows(README, "parameter") for word in re.findall(r"`([A-Z]\w+)`", row[0])}
    named |= {word for row in rows(README, "variable") for word in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert {name for name in named if not name.startswith("FETCHER")} <= known
    assert len(named) > 10


def test_every_alarm_is_in_the_runbook() -> None:
    resources = template()["Resources"].items()
    alarms = {name for name, resource in resources if resource["Type"] == "AWS::CloudWatch::Alarm"}
    documented = {word for row in rows(DOCS / "operations.md", "alarm") for word in re.findall(r"`(\w+)`", row[0])}
    assert alarms == documented


def test_every_metric_is_documented() -> None:
    """Of the services that write it; that they do is seen in tests/integration/test_cloud_faults.py."""
    enders = {service for service, metrics in WRITTEN.items() if metrics.keys() >= ENDED.keys()}
    documented = {
        (service, name)
        for named, of, _ in rows(DOCS / "operations.md", "metric")
        for name in re.findall(r"`(\w+)`", named)
        for service in (enders if of == "whoever ended them" else of.split(", "))
    }
    assert documented == {(service, name) for service, name, _ in written()}


# --- API


@cache
def routes() -> frozenset[tuple[str, str]]:
    from submit.app import app

    found = [*app._static_routes, *app._dynamic_routes]
    names = [(method, route.path) for route in found for method in _methods(route)]
    return frozenset((method, re.sub(r"<\w+>", "{id}", path)) for method, path in names)


def _methods(route: Any) -> list[str]:
    return [route.method] if isinstance(route.method, str) else list(route.method)


def test_every_route_is_documented_and_every_documented_one_exists() -> None:
    documented = {(row[0], row[1].strip("`")) for row in rows(DOCS / "api.md", "method")}
    local_only = {("GET", "/docs")}
    assert documented == {route for route in routes() if route not in local_only}


def test_every_test_that_the_threats_name_exists() -> None:
    """R-000-82: a protection that no test shows is not written down as one."""
    named = re.findall(
        r"`((?:contract|infra|integration|unit)/\w+\.py)(?:::(\w+))?`", (DOCS / "security.md").read_text()
    )
    assert len(named) > 20
    for file, test in named:
        text = (ROOT / "tests" / file).read_text()
        assert f"def {test}(" in text if test else text, (file, test)


def test_every_tls_mode_is_documented() -> None:
    """R-000-100: as the code takes them."""
    from fetcher.core.kinds import TLS_MODES

    documented = {row[0].strip("`"): tuple(re.findall(r"`([\w-]+)`", row[1])) for row in rows(DOCS / "api.md", "type")}
    assert documented == dict(TLS_MODES)


def code_rows() -> dict[str, list[str]]:
    return {row[0].strip("`"): row for row in rows(DOCS / "api.md", "code")}


def test_every_code_of_a_problem_is_documented_with_its_status() -> None:
    from submit.problems import TITLES, status_of

    documented = code_rows()
    for code in TITLES:
        assert documented[code][1] == str(int(status_of(code))), code


def test_every_code_in_the_sources_is_documented() -> None:
    found: set[str] = set()
    for folder in ("functions", "layers"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"FET-\d{4}", path.read_text()))
    assert found <= code_rows().keys()


def test_every_family_is_documented() -> None:
    from fetcher.errors import FetcherError

    errors: list[type[FetcherError]] = [FetcherError, *FetcherError.__subclasses__()]
    families = {error.family: error.code for error in errors}
    told = {row[1]: code for code, row in code_rows().items() if not row[1].isdigit()}
    assert families.keys() == told.keys()
    assert {family: code for family, code in families.items() if family != "invalid"} == {
        family: code for family, code in told.items() if family != "invalid"
    }


def test_the_documented_actions_are_those_of_the_code() -> None:
    """What a failed job tells its reader to do, word for word."""
    from fetcher.errors import ACTIONS, JOB_CODES

    assert {family: code_rows()[JOB_CODES[family]][3] for family in ACTIONS} == ACTIONS


def test_it_is_said_what_each_kind_was_tested_against() -> None:
    from fetcher.core.kinds import API_KINDS
    from fetcher.engines import kinds

    documented = {API_KINDS[row[1].strip("`")] for row in rows(README, "kind")}
    assert documented == set(kinds())


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_in_the_readme(operator: str) -> None:
    assert any(f"`{operator}`" in row[0] for row in rows(README, "operator"))


def test_the_limits_are_those_of_the_code() -> None:
    told = " ".join(" ".join(row) for row in rows(README, "what"))
    limits = Limits()
    assert f"| {limits.datasources}, {limits.tables}, {limits.fields} |" in text(README)
    assert f"| {limits.filter_fields}, {limits.filter_values:,} |" in text(README)
    assert f"{limits.seconds / 60:.0f} minutes" in told
    assert f"{limits.result_bytes / 2**20:.0f} MiB" in told


def test_every_member_of_a_job_is_documented() -> None:
    sources = (ROOT / "functions" / "submit" / "views.py").read_text()
    body = sources[sources.index("def job_view") : sources.index("def summary_view")]
    body += sources[sources.index("def _result_view") :]
    assert set(re.findall(r'^\s+"(\w+)":', body, re.MULTILINE)) <= code_words(DOCS / "api.md")


# --- events, life, values


def fields(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from fields(member, f"{prefix}{name}.")


@pytest.mark.parametrize("name", ["job.completed", "job.failed"])
def test_every_event_field_is_documented(name: str) -> None:
    schema = json.loads((ROOT / "infra" / "schemas" / f"{name}.json").read_text())
    documented = {word for row in rows(DOCS / "events.md", "field") for word in re.findall(r"`([\w.]+)`", row[0])}
    assert {field for field in fields(schema) if field not in {"result", "error"}} <= documented


def test_every_transition_is_documented_and_every_documented_one_exists() -> None:
    documented = [row[0] for row in rows(DOCS / "architecture.md", "event")]
    assert sorted(documented) == sorted(str(event) for event in lifecycle.Event)


def test_every_builtin_type_has_its_encoding_and_an_example() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(DOCS / "values.md", "PostgreSQL")}
    assert {name: told.get(name) for name in TYPES} == {name: str(encoding) for name, encoding in TYPES.items()}


# --- examples


REQUESTS = [path for path in sorted((ROOT / "examples").glob("*.json")) if path.name != "event-pattern.json"]


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_the_example_requests_are_requests(path: Path) -> None:
    parse(strict_loads(path.read_bytes()))


def test_the_request_of_the_readme_is_a_request() -> None:
    block = re.search(r"## The request.*?```json\n(.*?)```", text(README), re.DOTALL)
    assert block is not None
    assert parse(strict_loads(block[1])).source == "payments"


def test_the_pattern_of_the_events_page_is_the_example() -> None:
    block = re.search(r"## A rule.*?```json\n(.*?)```", text(DOCS / "events.md"), re.DOTALL)
    assert block is not None
    assert json.loads(block[1]) == json.loads((ROOT / "examples" / "event-pattern.json").read_text())


# --- the project speaks of itself alone


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_end_somewhere(page: Path) -> None:
    """Prose wraps; tables, links and code may be as long as they are."""
    prose = [line for line in FENCE.sub("", text(page)).splitlines() if not line.startswith(("|", "<!--"))]
    assert [line for line in prose if len(line) > 140 and "](" not in line] == []
