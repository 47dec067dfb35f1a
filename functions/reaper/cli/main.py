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
from reaper.cli.options import Many, PolicyOption, chosen, command, err, now, progress, width
from reaper.echo import many
from reaper.errors import ODD, ReaperError, SettingsError
from reaper.ledger import port
from reaper.model import Mode, Report
from reaper.policy import file
from reaper.report import brief
from reaper.report.totals import complete, exit_status
from reaper.run import run
from reaper.sessions import whereabouts

if TYPE_CHECKING:
    from reaper.policy.schema import Policy

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Find idle machine-learning resources in AWS and Azure.",
)
policies = typer.Typer(no_args_is_help=True, help="Check a policy file, or print its JSON Schema.")
app.add_typer(policies, name="policy")
app.add_typer(notify.app, name="notify")


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    MARKDOWN = "markdown"


MODE = (
    "How far the run may go: audit reports only, notify also tells owners, announce also names the date of an action, enforce also "
    "acts; REAPER_MODE without it, else audit."
)
SUFFIXES = {
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
    account: Annotated[Many, typer.Option(help="AWS account the credentials must be of; can be repeated.")] = None,
    region: Annotated[Many, typer.Option(help="AWS region, or all; repeat or separate by commas.")] = None,
    subscription: Annotated[Many, typer.Option(help="Azure subscription id; can be repeated.")] = None,
    kind: Annotated[Many, typer.Option(help="Only these kinds; globs allowed; can be repeated.")] = None,
    policy: PolicyOption = None,
    mode: Annotated[
        str | None, typer.Option(help=MODE, metavar="|".join(Mode), autocompletion=lambda: [mode.value for mode in Mode])
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
    found = chosen(base, cloud.value, account, region, subscription, kind)
    found = replace(
        found, mode=base.mode if mode is None else knobs.mode(mode, "--mode"), policy=base.policy if policy is None else policy
    )
    form = _form(format, output)
    cli_output.ready(output)
    report = _run(knobs.remembering(found))
    _write(report, form, output)
    if output != "-":
        err.print(f"Wrote {output}", soft_wrap=True)
    if not complete(report) and (output != "-" or form is not Format.TEXT):
        err.print(brief.incomplete(report), soft_wrap=True)
    raise typer.Exit(exit_status(report, fail_on.value if fail_on else None))


@app.command()
def explain(
    resource_id: Annotated[str, typer.Argument(help="ARN, ARM id or name of one resource.")],
    policy: PolicyOption = None,
    cloud: Annotated[CloudName | None, typer.Option(help="Which cloud; without it the one that the id is of, or all.")] = None,
    region: Annotated[Many, typer.Option(help="AWS region; without it the one in the ARN.")] = None,
    subscription: Annotated[Many, typer.Option(help="Azure subscription id; without it the one in the ARM id.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Explain it from a saved JSON report; no cloud is asked.", metavar="FILE")
    ] = None,
) -> None:
    """Tell all that is known of one resource: its verdict, the rule that holds, its tags and every signal."""
    if report:
        _from_saved(report, resource_id, {"policy": policy, "cloud": cloud, "region": region, "subscription": subscription})
        return
    _from_cloud(resource_id, policy, cloud, region, subscription)


def _from_saved(file: Path, wanted: str, others: Mapping[str, Any]) -> None:
    """Explain it as a saved report knows it. Exit status 3 where not everything could be read when it was written."""
    for name, value in others.items():
        if value:
            raise SettingsError(f"--{name} asks a cloud, and --report does not: drop one of the two")
    saved = import_module("reaper.report.saved")
    found = saved.load(file)
    text = saved.render(found, wanted)
    if text is None and found.complete:
        raise SettingsError(_missed(wanted, [row.name for row in found.findings], f"{str(file)!r} lists their ids"))
    sys.stdout.write(text or f"{wanted}: not found, but not everything could be seen when {file} was written\n")
    raise typer.Exit(0 if found.complete else 3)


def _missed(wanted: str, names: Sequence[str], where: str) -> str:
    """What is said of a resource that is not among those names."""
    near = import_module("reaper.report.explain").suggested(wanted, names)
    return f"{wanted!r} was not found in {many(len(names), 'resource')}{near or f'; {where}'}"


def _from_cloud(resource_id: str, policy: str | None, cloud: CloudName | None, region: Many, subscription: Many) -> None:
    """Explain it as it is now."""
    base = knobs.from_env(os.environ)
    at = whereabouts(resource_id)
    where = cloud.value if cloud else at.cloud if at else "all"
    account = [at.account] if at and at.cloud == where == "aws" else None
    region = region or ([at.region] if account and at and at.region else None)
    subscription = subscription or ([at.account] if at and at.cloud == where == "azure" else None)
    found = file.load(base.policy if policy is None else policy)
    narrow = chosen(base, where, account, region, subscription)
    with progress() as tell:
        report = run(replace(narrow, mode=Mode.AUDIT, ledger=base.ledger or port.default(os.environ)), found, now, tell)
    explaining = import_module("reaper.report.explain")
    text = explaining.render(report, resource_id, _known(explaining, report, resource_id, found.policy, base.ledger))
    if text is None and not complete(report):
        sys.stdout.write(f"{resource_id}: not found, but not everything could be seen:\n{brief.render(report)}")
    elif text is None:
        names = [f.case.resource.name for f in report.findings]
        raise SettingsError(_missed(resource_id, names, "`reaper sweep --format csv` lists their ids"))
    sys.stdout.write(text or "")
    raise typer.Exit(exit_status(report, None))


def _known(explaining: Any, report: Report, wanted: str, policy: Policy, address: str | None) -> Any:
    """What the ledger remembers of the resources that are explained; it is only read."""
    ids = [f.case.resource.id for f in explaining.matching(report, wanted)]
    memory = port.open(address, os.environ, read_only=True)
    recalled = memory.recall(ids, now())
    known = {id_: recalled[id_] for id_ in ids if id_ in recalled}
    return explaining.Known(policy=policy, now=now(), memories=known, histories=memory.history)


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
        _needed("reaper_sandbox.demo.story_run", "demo").play(directory)
        return
    sandbox = _needed("reaper_sandbox.demo.sweep_demo", "demo")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {str(directory)!r}: cannot be made a folder: {error}") from error
    for name in ("report.html", "report.json"):
        cli_output.ready(str(directory / name))
    with progress() as tell:
        report = sandbox.report(file.load(policy or sandbox.POLICY), directory / "mail", now, tell)
    _write(report, Format.HTML, str(directory / "report.html"))
    _write(report, Format.JSON, str(directory / "report.json"))
    _write(report, format, "-", f" --report {quote(str(directory / 'report.json'))}")
    said = (
        f"Wrote {directory / 'report.html'} and {directory / 'report.json'}; the mails it would send are in {directory / 'mail'}."
    )
    err.print(said, soft_wrap=True)


for later in (plan.plan, plan.apply, plan.restore, plan.undo, plan.release):
    app.command()(later)


@policies.command("check")
def check(where: Annotated[str, typer.Argument(help="Policy file, s3://, ssm: or blob URL.", metavar="FILE|URI")]) -> None:
    """Validate a policy, and point at rules that can never match and at other traps."""
    from reaper.policy import lint

    found = file.load(where)
    warnings = lint.lint(found.policy, found.text, found.name)
    for warning in warnings:
        err.print("warning", style="yellow", end=" ")
        err.print(warning, soft_wrap=True)
    sys.stdout.write(f"{found.name}: valid, {many(len(found.policy.rules), 'rule')}, {many(len(warnings), 'warning')}\n")


@policies.command("schema")
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from reaper.policy import json_schema as schemas

    sys.stdout.write(json.dumps(schemas.schema(registry.names()), indent=2) + "\n")


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
        _say(str(error))
    except (*ODD, MemoryError) as error:
        fault = error
    if unwritten := cli_output.lost() or cli_output.full(fault):
        _say(f"not all could be written: {unwritten}")
        status = 2
    elif fault:
        traceback.print_exception(fault)
        err.print("This is a fault of ours, nothing can be said of your resources. Please report it with the lines above.")
    sys.exit(status)


def _say(text: str) -> None:
    err.print("error", style="bold red", end=" ")
    err.print(text, soft_wrap=True)


def _form(asked: Format | None, output: str) -> Format:
    """The format that was asked for, else the one that the file's name says. Raises SettingsError for a name that says another."""
    suffix = Path(output).suffix.lower()
    if asked is None and suffix not in SUFFIXES:
        known = ", ".join(name for name in SUFFIXES if name)
        raise SettingsError(f"--output {output!r}: {suffix} is no format we write: end it in {known}, or say which with --format")
    return asked or SUFFIXES[suffix]


def _run(settings: knobs.Settings) -> Report:
    with progress() as tell:
        return run(settings, file.load(settings.policy), now, tell)


def _write(report: Report, format: Format, output: str, origin: str = "") -> None:
    """`origin`: what `reaper explain` needs to be told of where the report comes from."""
    renderer = import_module(f"reaper.report.{format.value}")
    if format is Format.TEXT and output == "-":
        out = Console(highlight=False)
        explain = f"{command(sys.argv, os.environ)} explain NAME{origin}"
        colour = out.is_terminal and not out.no_color
        sys.stdout.write(renderer.render(report, width=width(out, os.environ), colour=colour, explain=explain))
        return
    cli_output.write(output, lambda: renderer.chunks(report) if format is Format.JSON else [renderer.render(report)])


def _needed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingsError(f"this needs the extra `{extra}`: pip install 'ml-idle-reaper[{extra}]' ({error})") from error
