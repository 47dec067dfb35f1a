"""Plays the story: its events and sweeps in order, printed as they happen, and the totals at the end.

Writes everything to the folder `story`: mails, manifests, the ledger and the last report. Needs the extra `demo`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

from reaper.cli.output import show_progress
from reaper.errors import SettingsError
from reaper.finding import Report
from reaper.model import Result
from reaper.report import html
from reaper.report import json as plain
from reaper.savings.credit import Cause
from reaper.savings.totals import Saved
from reaper.text import format_usd
from reaper_sandbox.demo import story_events, story_fleet
from reaper_sandbox.demo.story_events import Scene
from reaper_sandbox.demo.story_text import StoryPrinter
from reaper_sandbox.demo.story_world import StoryWorld, story_world
from reaper_sandbox.shortcuts import saved_since

FOLDER = "story"
OWN_FILES = ("ledger.db*", "report.html", "report.json", "mail/*.eml", "mail/*.html", "manifests/*/*/*.json")
"""The files that an earlier run left in the folder. Only these are deleted."""


def play_story(directory: Path) -> None:
    """Play the story on standard output. Raises SettingsError if `directory` can't be written to.

    On a terminal the story is its own progress report. Otherwise progress goes to standard error.
    """
    out = Console(highlight=False, file=sys.stdout)
    if out.is_terminal:
        _play_to(directory, out, lambda text: None)
        return
    with show_progress() as progress:
        _play_to(directory, out, progress)


def _play_to(directory: Path, out: Console, progress: Callable[[str], None]) -> None:
    home = _emptied_folder(directory / FOLDER)
    printer = StoryPrinter(out=out)
    progress("both clouds: setting up the simulated fleet")
    with story_world(home.resolve()) as world:
        printer.print_line(
            "Two weeks in fast motion: simulated clouds, real sweeps in enforce mode. Times are UTC, costs are list prices."
        )
        scenes = story_events.scenes()
        for number, scene in enumerate(scenes, 1):
            progress(f"{scene.when:%a %d %b %H:%M} ({number} of {len(scenes)})")
            world.set_time(scene.when)
            _play_scene(scene, world, printer)
        (home / "report.html").write_text(html.render(world.reports[-1]), encoding="utf-8")
        (home / "report.json").write_text(plain.render(world.reports[-1]), encoding="utf-8")
        _print_ending(world, printer, directory / FOLDER)


def _emptied_folder(home: Path) -> Path:
    """The folder without the files of an earlier run."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        for pattern in OWN_FILES:
            for path in home.glob(pattern):
                path.unlink()
    except OSError as error:
        raise SettingsError(f"--output {str(home.parent)!r}: can't be written to: {error}") from error
    return home


def _play_scene(scene: Scene, world: StoryWorld, printer: StoryPrinter) -> None:
    if scene.event:
        printer.print_event(scene.when, scene.who, scene.event(world))
        return
    texts: list[str] = []
    between = scene.between_judging_and_acting
    report = world.sweep((lambda: texts.append(between(world))) if between else None)
    for text in texts:
        printer.print_event(scene.when, scene.who, text)
    cards = world.room.read_titles()
    printer.print_sweep(report, world.mails(), cards, world.records(), daily=f"{scene.when:%H:%M}" == story_events.DAILY_SWEEP)


def _print_ending(world: StoryWorld, printer: StoryPrinter, shown: Path) -> None:
    with world.ledger() as ledger:
        saved = saved_since(ledger, story_fleet.STORY_START, world.now)
    printer.print_line()
    printer.print_line("Two weeks later", "bold underline")
    for label, text in (
        ("saved", _savings_text(saved)),
        ("not counted", _unpriced_text(saved)),
        ("actions", _action_counts_text(world.reports)),
        (
            "office hours",
            ", ".join(f"{name} {participle} {n} times" for (name, participle), n in sorted(printer.office_hours_counts.items())),
        ),
        ("mails", f"{len(world.seen_mails)} in {shown / 'mail'}"),
        ("manifests", f"{len(list((world.home / 'manifests').glob('*/*/*.json')))} in {shown / 'manifests'}"),
        ("last report", f"{shown / 'report.html'} and {shown / 'report.json'}"),
    ):
        printer.print_line(f"  {label:<14}{text}")


def _savings_text(saved: Saved) -> str:
    """The sum and its three largest parts."""
    sums = _sums_by_name((line.subject.name, line.saved_usd) for line in saved.lines if line.cause is Cause.OURS)
    most = ", ".join(f"{name} {format_usd(usd)}" for name, usd in sorted(sums.items(), key=lambda pair: -pair[1])[:3])
    return f"{format_usd(saved.ours.saved_usd)}: proven hours at rest times list price. Most of it: {most}"


def _unpriced_text(saved: Saved) -> str:
    hours = _sums_by_name((line.subject.name, line.unpriced_hours) for line in saved.lines if line.unpriced_hours)
    return ", ".join(f"{length:,.0f} hours of {name}, price unknown" for name, length in hours.items()) or "nothing"


def _sums_by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, part in parts:
        sums[name] = sums.get(name, 0.0) + part
    return sums


def _action_counts_text(reports: Iterable[Report]) -> str:
    """The number of actions by their result, such as `23 stop`, `1 stop refused`."""
    counts = Counter(
        f.step.name.value + ("" if f.outcome.result is Result.DONE else f" {f.outcome.result.value}")
        for report in reports
        for f in report.findings
        if f.outcome.result in {Result.DONE, Result.REFUSED, Result.FAILED}
    )
    return ", ".join(f"{count} {action}" for action, count in counts.most_common())
