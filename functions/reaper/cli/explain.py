"""`reaper explain`: everything known about one resource, from the cloud or from a saved report."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reaper import settings
from reaper.cli.options import PolicyOption, WideOption, current_time
from reaper.cli.output import report_width, show_progress
from reaper.cli.places import CloudName, PlaceOptions, RepeatedOption, with_place_options, with_places
from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.ledger.rows import RETENTION
from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.report.summary import exit_status
from reaper.report.table import WIDE, print_blocks, wrap
from reaper.run import run
from reaper.sessions import target_of
from reaper.settings import Settings
from reaper.text import count_noun

VALUE_COLUMN = 12
"""Where the values of its lines begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions(PlaceOptions):
    """Where to look for a resource, as it was typed. Its ID may say it, too."""

    cloud: Annotated[CloudName | None, typer.Option(help="Cloud to search. Default: the ID's cloud, else all")] = None
    account: Annotated[RepeatedOption, typer.Option(help="AWS accounts to search. Default: the account in the ARN")] = None
    region: Annotated[RepeatedOption, typer.Option(help="AWS regions to search. Default: the region in the ARN")] = None
    subscription: Annotated[
        RepeatedOption, typer.Option(help="Azure subscription IDs to search. Default: the subscription in the ARM ID")
    ] = None


@with_place_options
def explain_resource(
    resource_id: Annotated[str, typer.Argument(help="ARN, ARM ID or name of one resource, or a part of it that no other has")],
    places: SearchOptions,
    policy: PolicyOption = None,
    report: Annotated[Path | None, typer.Option(help="Saved JSON report to read instead of the cloud", metavar="FILE")] = None,
    wide: WideOption = False,
) -> None:
    """Explain one resource: verdict, rule, tags, dates and every signal."""
    if report:
        options = {"policy": policy} | {name.replace("_", "-"): value for name, value in asdict(places).items()}
        _explain_saved(report, resource_id, [name for name, value in options.items() if value], wide)
        return
    _explain_live(resource_id, _search_settings(settings.from_env(os.environ), resource_id, places), policy, wide)


def _explain_saved(file: Path, name: str, other_options: Sequence[str], wide: bool) -> None:
    """Explain the resource as a saved report describes it. Exits with status 3 if that report was incomplete."""
    from reaper.report import explain, json

    for option in other_options:
        raise SettingsError(f"--{option} needs a cloud, and --report reads a file; drop one of the two")
    report = json.load_report(file)
    text = explain.render_saved(report, name)
    if text is None and report.is_complete:
        raise SettingsError(_not_found_text(name, [row.name for row in report.findings], f"{str(file)!r} lists the IDs"))
    sys.stdout.write(_wrapped(text or f"{name}: not found, but the coverage of {file} is incomplete\n", wide))
    raise typer.Exit(0 if report.is_complete else 3)


def _wrapped(text: str, wide: bool) -> str:
    """The explanation; on a terminal its lines break between words, and go on below their values."""
    width = report_width(Console(), os.environ, wide=wide, otherwise=WIDE)
    lines = [(line[:VALUE_COLUMN], line[VALUE_COLUMN:]) for line in text.splitlines()]
    wrapped = ((head, list(wrap(value, width, VALUE_COLUMN))) for head, value in lines)
    return "".join(
        f"{head}{first.plain[VALUE_COLUMN:]}\n" + "".join(f"{line.plain}\n" for line in more) for head, (first, *more) in wrapped
    )


def _search_settings(base: Settings, resource_id: str, typed: SearchOptions) -> Settings:
    """Settings to look for the resource: where the options say, else where its ID says."""
    target = target_of(resource_id)
    cloud = typed.cloud or ("all" if target is None else "aws" if target.cloud == "aws" else "azure")
    account, region, subscription = typed.account, typed.region, typed.subscription
    if target and target.cloud == cloud == "aws":
        account = account or (None if typed.organization or typed.ou else [target.account])
        region = region or ([target.region] if target.region else None)
    if target and target.cloud == cloud == "azure" and not typed.management_group:
        subscription = subscription or [target.account]
    places = replace(typed, cloud=cloud, account=account, region=region, subscription=subscription)
    return with_places(base, places)


def _explain_live(resource_id: str, base: Settings, policy: str | None, wide: bool) -> None:
    from reaper.report import explain
    from reaper.report.text import coverage_blocks

    source = load_policy(base.policy if policy is None else policy)
    audit = replace(base, mode=Mode.AUDIT, ledger=base.ledger or opening.default_address(os.environ))
    with show_progress() as progress:
        report = run(audit, source, current_time, progress)
    ledger, now = opening.open_ledger(base.ledger, os.environ, read_only=True), current_time()
    ids = [finding.case.resource.id for finding in explain.matching_findings(report, resource_id)]
    known = ledger.recall(ids, now).readable_only()
    context = explain.ExplainContext(
        policy=source.policy,
        now=now,
        records={one: known.record(one) for one in ids if one in known},
        snoozes={one: known.snooze(one) for one in ids if one in known},
        histories=partial(ledger.history, since=now - RETENTION, limit=explain.MAX_HISTORY),
    )
    text = explain.render(report, resource_id, context)
    if text is None and report.is_complete:
        names = [finding.case.resource.name for finding in report.findings]
        raise SettingsError(_not_found_text(resource_id, names, "`reaper sweep --format csv` lists the IDs"))
    gaps = "" if text else print_blocks(coverage_blocks(report), WIDE, False)
    sys.stdout.write(_wrapped(text or f"{resource_id}: not found, but the coverage is incomplete:\n{gaps}", wide))
    raise typer.Exit(exit_status(report, None))


def _not_found_text(name: str, names: Sequence[str], where: str) -> str:
    from reaper.report import explain

    suggestion = explain.suggestion_text(name, names)
    return f"{name!r} was not found in {count_noun(len(names), 'resource')}{suggestion or f'; {where}'}"
