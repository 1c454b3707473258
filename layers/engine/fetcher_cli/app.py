"""The command line: which commands there are, and how their errors become an exit code."""

from typing import Any

import typer
from typer.core import TyperGroup

from fetcher_cli import connections, console, doctor, failures, jobs, proofs, redriving
from fetcher_cli.errors import CliError


class Commands(TyperGroup):
    """Runs a command and turns what it raised into a text on stderr and an exit code."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override] # the base class names its private type
        """Run the command line."""
        try:
            return super().invoke(ctx)
        except CliError as error:
            console.err().print(str(error))
            raise typer.Exit(error.exit_code) from error


app = typer.Typer(
    cls=Commands,
    help="Extraction jobs: submit, follow, download, verify.",
    epilog="Exit codes: 0 done · 1 it failed · 2 wrong usage or request · 3 out of reach or not ready.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(connections.app, name="connections")
app.command()(jobs.submit)
app.command()(jobs.status)
app.command()(jobs.cancel)
app.command()(jobs.download)
app.command()(failures.failed)
app.command()(failures.retry)
app.command()(proofs.verify)
app.command("derive-key")(proofs.derive_key)
app.command("rotate-key")(proofs.rotate_key)
app.command()(doctor.kinds)
app.command()(doctor.doctor)
app.command()(redriving.redrive)


def main() -> None:
    """Run the command line; the entry point of the package."""
    app()
