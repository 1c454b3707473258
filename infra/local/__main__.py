"""`python -m infra.local up | down | demo | dashboard`: the local stack from the command line."""

import argparse
import signal
import sys
from collections.abc import Sequence

from infra.local import dashboard, demo, stack
from infra.local.places import ROOT, Place, StackError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are one clear text, without a traceback."""
    given = _parser().parse_args(arguments)
    # Being told to end is a reason to clean up, as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.command == "demo":
            demo.run(Place.of(given.file or ROOT / ".local" / "demo.json"))
        elif given.command == "dashboard":
            dashboard.run(Place.of(given.file or ROOT / ".local" / "dashboard.json"))
        elif given.command == "up":
            _up(Place.of(given.file), dict(given.set))
        else:
            stack.down(Place.of(given.file))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; what was started has been stopped.", file=sys.stderr)
        return 130
    return 0


def _up(place: Place, parameters: dict[str, str]) -> None:
    description = stack.up(place, parameters)
    print(f"The API answers at {description['apiUrl']}")
    print(f"Everything else is in {place.file}; `make down` ends it.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "demo", "dashboard"])
    parser.add_argument("--file", help="the stack file; default FETCHER_STACK_FILE or .local/stack.json")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], type=_pair, help="a parameter of the template"
    )
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
