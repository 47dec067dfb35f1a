"""The command line. Standard output carries the report only; progress, logs and errors go to standard error.

Exit status: 0 complete, 1 complete and `--fail-on` matched, 2 usage, policy or settings error, 3 incomplete coverage.
"""

from __future__ import annotations

import io
import sys
import traceback
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from reaper import __version__, registry
from reaper.cli import demo, doctor, explain, notify, output, policy, prices, savings, sweep, undo
from reaper.cli.output import error_console, print_error
from reaper.errors import NO_SIGN_IN, ODD_REPLY_ERRORS, CloudError, ReaperError
from reaper.text import validation_text

CHANGING = frozenset({"sweep", "apply", "restore", "undo", "release", "pause", "resume", "forget", "notify"})
"""Commands that may have changed something when they are interrupted and say no more about it."""


class Commands(TyperGroup):
    """The commands. Ctrl-C ends each of them with status 130 and what was done until then."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            may_have_changed = ctx.invoked_subcommand in CHANGING
            default = "It isn't known whether it was done; run the command again." if may_have_changed else "Nothing was changed."
            output.print_message(f"\nInterrupted. {str(interrupt) or default}")
            output.leave(130)
        except typer.BadParameter as error:
            error.message = validation_text(error.message)
            raise


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Find idle ML resources on AWS and Azure, notify their owners, and stop them if your policy says so.",
)
app.add_typer(policy.app, name="policy")
app.add_typer(notify.app, name="notify")


@app.callback(invoke_without_command=True)
def version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit")] = False,
) -> None:
    """The options before any command."""
    if version:
        sys.stdout.write(f"reaper {__version__}\n")
        raise typer.Exit


def list_kinds() -> None:
    """List the supported resource kinds."""
    table = Table("kind", "cloud", "description", box=None, pad_edge=False, header_style="dim")
    for kind in registry.kinds():
        table.add_row(kind.name, kind.cloud, kind.title)
    Console(highlight=False, markup=False, emoji=False).print(table)


app.command("sweep")(sweep.sweep_once)
app.command("explain")(explain.explain_resource)
app.command("doctor")(doctor.examine_deployment)
app.command("kinds")(list_kinds)
app.command("prices")(prices.show_prices)
app.command("demo")(demo.run_demo)
app.command("plan")(sweep.write_plan)
app.command("apply")(sweep.apply_plan)
app.command("savings")(savings.show_savings)
app.command("restore")(undo.restore_resource)
app.command("undo")(undo.undo_run)
app.command("release")(undo.release_holds)
app.command("pause")(undo.pause_actions)
app.command("resume")(undo.resume_actions)
app.command("forget")(undo.forget_person)


def main() -> None:
    """Run the console script. A ReaperError ends it with one plain message and status 2, 3 if signing in failed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    status, fault = _run_command()
    if write_error := output.output_error(fault):
        print_error(f"the output is incomplete: {write_error}")
        status = 2
    elif fault:
        traceback.print_exception(fault)
        error_console.print(
            "This is a bug in the reaper, not a finding about your resources. Please report it with the lines above."
        )
    sys.exit(status)


def _run_command() -> tuple[int, Exception | None]:
    """The exit status, and the error that no code expected, if any."""
    try:
        app()
    except SystemExit as exit_request:
        # Typer and Rich exit with 1 when a pipe's reader has gone, but 1 means that something is idle.
        return 2 if isinstance(exit_request.__context__, BrokenPipeError) else int(exit_request.code or 0), None
    except ReaperError as error:
        print_error(str(error))
        return 3 if isinstance(error, CloudError) and error.code == NO_SIGN_IN else 2, None
    except (*ODD_REPLY_ERRORS, MemoryError) as error:
        return 2, error
    return 2, None
