"""The command line. Standard output carries the report only; progress, logs and errors go to standard error.

Exit status: 0 complete, 1 complete and `--fail-on` matched, 2 usage, policy or settings error, 3 coverage incomplete.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from reaper import __version__, registry
from reaper import settings as knobs
from reaper.cli import notify, plan
from reaper.cli import output as cli_output
from reaper.cli.options import (
    PolicyOption,
    RepeatedOption,
    current_time,
    error_console,
    own_command,
    report_width,
    show_progress,
    with_options,
)
from reaper.echo import count_noun
from reaper.errors import ODD_REPLY_ERRORS, ReaperError, SettingsError
from reaper.ledger import port
from reaper.model import Mode, Report
from reaper.policy import file
from reaper.report import brief
from reaper.report.totals import exit_status, is_complete
from reaper.run import run
from reaper.sessions import target_of

if TYPE_CHECKING:
    from reaper.policy.schema import Policy

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Find idle machine-learning resources in AWS and Azure.",
)
policy_app = typer.Typer(no_args_is_help=True, help="Check a policy file, or print its JSON Schema.")
app.add_typer(policy_app, name="policy")
app.add_typer(notify.app, name="notify")


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    MARKDOWN = "markdown"


MODE_HELP = (
    "How far the run may go: audit reports only, notify also tells owners, announce also names the date of an action, enforce also "
    "acts; REAPER_MODE without it, else audit."
)
FORMAT_BY_SUFFIX = {
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".json": Format.JSON,
    ".csv": Format.CSV,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".txt": Format.TEXT,
    "": Format.TEXT,
}
"""What a file's name says of its format."""


class CloudName(StrEnum):
    """Which cloud to sweep."""

    AWS = "aws"
    AZURE = "azure"
    ALL = "all"


class FailOn(StrEnum):
    """What makes a complete sweep exit with status 1."""

    IDLE = "idle"


@app.command()
def sweep(
    cloud: Annotated[CloudName, typer.Option(help="Which cloud.")] = CloudName.ALL,
    account: Annotated[RepeatedOption, typer.Option(help="AWS account the credentials must be of; can be repeated.")] = None,
    region: Annotated[RepeatedOption, typer.Option(help="AWS region, or all; repeat or separate by commas.")] = None,
    subscription: Annotated[RepeatedOption, typer.Option(help="Azure subscription id; can be repeated.")] = None,
    kind: Annotated[RepeatedOption, typer.Option(help="Only these kinds; globs allowed; can be repeated.")] = None,
    policy: PolicyOption = None,
    mode: Annotated[
        str | None, typer.Option(help=MODE_HELP, metavar="|".join(Mode), autocompletion=lambda: [mode.value for mode in Mode])
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="How to write the report; without it as the name of --output ends, or text.")
    ] = None,
    output: Annotated[str, typer.Option(help="Where to write it.", metavar="FILE|-")] = "-",
    fail_on: Annotated[FailOn | None, typer.Option(help="Exit with 1 when something is idle.")] = None,
) -> None:
    """Sweep once and report.

    Exit status: 0 complete, 1 complete and --fail-on matched, 2 an error of usage, policy or settings, 3 something could not be read or done.
    """
    base = knobs.from_env(os.environ)
    found = with_options(base, cloud.value, account, region, subscription, kind)
    found = replace(
        found,
        mode=base.mode if mode is None else knobs.parse_mode(mode, "--mode"),
        policy=base.policy if policy is None else policy,
    )
    form = _format_of(format, output)
    cli_output.check_writable(output)
    report = _run_sweep(knobs.require_kept_memory(found))
    _write_report(report, form, output)
    if output != "-":
        error_console.print(f"Wrote {output}", soft_wrap=True)
    if not is_complete(report) and (output != "-" or form is not Format.TEXT):
        error_console.print(brief.incomplete_line(report), soft_wrap=True)
    raise typer.Exit(exit_status(report, fail_on.value if fail_on else None))


@app.command()
def explain(
    resource_id: Annotated[str, typer.Argument(help="ARN, ARM id or name of one resource.")],
    policy: PolicyOption = None,
    cloud: Annotated[CloudName | None, typer.Option(help="Which cloud; without it the one that the id is of, or all.")] = None,
    region: Annotated[RepeatedOption, typer.Option(help="AWS region; without it the one in the ARN.")] = None,
    subscription: Annotated[RepeatedOption, typer.Option(help="Azure subscription id; without it the one in the ARM id.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Explain it from a saved JSON report; no cloud is asked.", metavar="FILE")
    ] = None,
) -> None:
    """Tell all that is known of one resource: its verdict, the rule that holds, its tags and every signal."""
    if report:
        _explain_saved(report, resource_id, {"policy": policy, "cloud": cloud, "region": region, "subscription": subscription})
        return
    _explain_live(resource_id, policy, cloud, region, subscription)


def _explain_saved(file: Path, wanted: str, others: Mapping[str, Any]) -> None:
    """Explain it as a saved report knows it. Exit status 3 where not everything could be read when it was written."""
    for name, value in others.items():
        if value:
            raise SettingsError(f"--{name} asks a cloud, and --report does not: drop one of the two")
    saved = import_module("reaper.report.saved")
    found = saved.load_report(file)
    text = saved.render(found, wanted)
    if text is None and found.is_complete:
        raise SettingsError(_not_found_text(wanted, [row.name for row in found.findings], f"{str(file)!r} lists their ids"))
    sys.stdout.write(text or f"{wanted}: not found, but not everything could be seen when {file} was written\n")
    raise typer.Exit(0 if found.is_complete else 3)


def _not_found_text(wanted: str, names: Sequence[str], where: str) -> str:
    """What is said of a resource that is not among those names."""
    near = import_module("reaper.report.explain").suggestion_text(wanted, names)
    return f"{wanted!r} was not found in {count_noun(len(names), 'resource')}{near or f'; {where}'}"


def _explain_live(
    resource_id: str, policy: str | None, cloud: CloudName | None, region: RepeatedOption, subscription: RepeatedOption
) -> None:
    """Explain it as it is now."""
    base = knobs.from_env(os.environ)
    at = target_of(resource_id)
    where = cloud.value if cloud else at.cloud if at else "all"
    account = [at.account] if at and at.cloud == where == "aws" else None
    region = region or ([at.region] if account and at and at.region else None)
    subscription = subscription or ([at.account] if at and at.cloud == where == "azure" else None)
    found = file.load_policy(base.policy if policy is None else policy)
    narrow = with_options(base, where, account, region, subscription)
    with show_progress() as tell:
        report = run(
            replace(narrow, mode=Mode.AUDIT, ledger=base.ledger or port.default_address(os.environ)), found, current_time, tell
        )
    explaining = import_module("reaper.report.explain")
    text = explaining.render(report, resource_id, _explain_context(explaining, report, resource_id, found.policy, base.ledger))
    if text is None and not is_complete(report):
        sys.stdout.write(f"{resource_id}: not found, but not everything could be seen:\n{brief.render(report)}")
    elif text is None:
        names = [f.case.resource.name for f in report.findings]
        raise SettingsError(_not_found_text(resource_id, names, "`reaper sweep --format csv` lists their ids"))
    sys.stdout.write(text or "")
    raise typer.Exit(exit_status(report, None))


def _explain_context(explaining: Any, report: Report, wanted: str, policy: Policy, address: str | None) -> Any:
    """What the ledger remembers of the resources that are explained; it is only read."""
    ids = [f.case.resource.id for f in explaining.matching_findings(report, wanted)]
    memory = port.open_ledger(address, os.environ, read_only=True)
    recalled = memory.recall(ids, current_time())
    known = {id_: recalled[id_] for id_ in ids if id_ in recalled}
    return explaining.ExplainContext(policy=policy, now=current_time(), memories=known, histories=memory.history)


@app.command("kinds")
def list_kinds() -> None:
    """List the kinds of resource that a sweep knows."""
    table = Table("kind", "cloud", "what it is", box=None, pad_edge=False, header_style="dim")
    for kind in registry.kinds():
        table.add_row(kind.name, kind.cloud, kind.title)
    Console(highlight=False, markup=False, emoji=False).print(table)


@app.command()
def demo(
    output: Annotated[str, typer.Option(help="Where to write report.html and report.json.", metavar="DIR")] = "demo",
    format: Annotated[Format, typer.Option(help="How to print the report.")] = Format.TEXT,
    policy: PolicyOption = None,
    story: Annotated[bool, typer.Option("--story", help="Tell two weeks of notices, stops and restores instead.")] = False,
) -> None:
    """Sweep a pretend fleet, with no account and no network."""
    if not output.strip():
        raise SettingsError("--output '' names no folder: leave it out, or name one")
    directory = Path(output)
    if story and (policy or format is not Format.TEXT):
        raise SettingsError("--story has a policy and a format of its own: leave --policy and --format out")
    if story:
        _import_extra("reaper_sandbox.demo.story_run", "demo").play_story(directory)
        return
    sandbox = _import_extra("reaper_sandbox.demo.sweep_demo", "demo")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {str(directory)!r}: cannot be made a folder: {error}") from error
    for name in ("report.html", "report.json"):
        cli_output.check_writable(str(directory / name))
    with show_progress() as tell:
        report = sandbox.run_demo_sweep(file.load_policy(policy or sandbox.DEMO_POLICY), directory / "mail", current_time, tell)
    _write_report(report, Format.HTML, str(directory / "report.html"))
    _write_report(report, Format.JSON, str(directory / "report.json"))
    _write_report(report, format, "-", f" --report {quote(str(directory / 'report.json'))}")
    said = (
        f"Wrote {directory / 'report.html'} and {directory / 'report.json'}; the mails it would send are in {directory / 'mail'}."
    )
    error_console.print(said, soft_wrap=True)


for later in (plan.plan, plan.apply, plan.restore, plan.undo, plan.release):
    app.command()(later)


@policy_app.command("check")
def check_policy(where: Annotated[str, typer.Argument(help="Policy file, s3://, ssm: or blob URL.", metavar="FILE|URI")]) -> None:
    """Validate a policy, and point at rules that can never match and at other traps."""
    from reaper.policy import lint

    found = file.load_policy(where)
    warnings = lint.lint_policy(found.policy, found.text, found.name)
    for warning in warnings:
        error_console.print("warning", style="yellow", end=" ")
        error_console.print(warning, soft_wrap=True)
    sys.stdout.write(
        f"{found.name}: valid, {count_noun(len(found.policy.rules), 'rule')}, {count_noun(len(warnings), 'warning')}\n"
    )


@policy_app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from reaper.policy import json_schema as schemas

    sys.stdout.write(json.dumps(schemas.policy_schema(registry.kind_names()), indent=2) + "\n")


@app.callback(invoke_without_command=True)
def version(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    """The options before any command."""
    if version:
        sys.stdout.write(f"reaper {__version__}\n")
        raise typer.Exit


def main() -> None:
    """The console script. Errors of ours end with status 2 and one plain message."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    fault: Exception | None = None
    status = 2
    try:
        app()
    except SystemExit as left:
        # Typer and Rich end with 1 where nobody reads on, which would say that something is idle.
        status = 2 if isinstance(left.__context__, BrokenPipeError) else int(left.code or 0)
    except ReaperError as error:
        _print_error(str(error))
    except (*ODD_REPLY_ERRORS, MemoryError) as error:
        fault = error
    if unwritten := cli_output.flush_error() or cli_output.device_full_error(fault):
        _print_error(f"not all could be written: {unwritten}")
        status = 2
    elif fault:
        traceback.print_exception(fault)
        error_console.print(
            "This is a fault of ours, nothing can be said of your resources. Please report it with the lines above."
        )
    sys.exit(status)


def _print_error(text: str) -> None:
    error_console.print("error", style="bold red", end=" ")
    error_console.print(text, soft_wrap=True)


def _format_of(asked: Format | None, output: str) -> Format:
    """The format that was asked for, else the one that the file's name says. Raises SettingsError for a name that says another."""
    suffix = Path(output).suffix.lower()
    if asked is None and suffix not in FORMAT_BY_SUFFIX:
        known = ", ".join(name for name in FORMAT_BY_SUFFIX if name)
        raise SettingsError(f"--output {output!r}: {suffix} is no format we write: end it in {known}, or say which with --format")
    return asked or FORMAT_BY_SUFFIX[suffix]


def _run_sweep(settings: knobs.Settings) -> Report:
    with show_progress() as tell:
        return run(settings, file.load_policy(settings.policy), current_time, tell)


def _write_report(report: Report, format: Format, output: str, origin: str = "") -> None:
    """`origin`: what `reaper explain` needs to be told of where the report comes from."""
    renderer = import_module(f"reaper.report.{format.value}")
    if format is Format.TEXT and output == "-":
        out = Console(highlight=False)
        explain = f"{own_command(sys.argv, os.environ)} explain NAME{origin}"
        colour = out.is_terminal and not out.no_color
        sys.stdout.write(renderer.render(report, width=report_width(out, os.environ), colour=colour, explain=explain))
        return
    cli_output.write_output(output, lambda: renderer.chunks(report) if format is Format.JSON else [renderer.render(report)])


def _import_extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingsError(f"this needs the extra `{extra}`: pip install 'ml-idle-reaper[{extra}]' ({error})") from error
