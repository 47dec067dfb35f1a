"""The demo's second chapter, played: the scenes in order, told as they happen, and what it came to in the end.

It keeps all it makes in the folder `story`: mails, manifests, the ledger and the last report. Needs the extra `demo`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from rich.console import Console

from reaper.errors import SettingsError
from reaper.text import format_usd
from reaper.model import Report, Result
from reaper.report import html
from reaper.report import json as plain
from reaper_sandbox.demo import savings, story_events
from reaper_sandbox.demo.savings import RestPeriod
from reaper_sandbox.demo.story_world import StoryWorld, story_world
from reaper_sandbox.demo.story_events import Scene
from reaper_sandbox.demo.story_text import StoryPrinter
from reaper.cli.progress import show_progress

FOLDER = "story"
OWN_FILES = ("ledger.db*", "report.html", "report.json", "mail/*.eml", "mail/*.html", "manifests/*/*.json")
"""What an earlier telling left there, and nothing else is taken away."""


def play_story(directory: Path) -> None:
    """Tells the story on standard output. Raises SettingsError where `directory` cannot be written to.

    On a terminal the story is its own progress; elsewhere progress goes to standard error.
    """
    out = Console(highlight=False, file=sys.stdout)
    if out.is_terminal:
        _play_to(directory, out, lambda text: None)
        return
    with show_progress() as tell:
        _play_to(directory, out, tell)


def _play_to(directory: Path, out: Console, progress: Callable[[str], None]) -> None:
    home = _emptied_folder(directory / FOLDER)
    teller = StoryPrinter(out=out)
    progress("both clouds: setting up the pretend fleet")
    with story_world(home.resolve()) as on:
        teller.print_line("Two weeks in fast motion: pretend clouds, real sweeps in mode enforce. Times are UTC, costs list prices.")
        scenes = story_events.scenes()
        for number, scene in enumerate(scenes, 1):
            progress(f"{scene.when:%a %d %b %H:%M} ({number} of {len(scenes)})")
            on.set_time(scene.when)
            _play_scene(scene, on, teller)
        (home / "report.html").write_text(html.render(on.reports[-1]), encoding="utf-8")
        (home / "report.json").write_text(plain.render(on.reports[-1]), encoding="utf-8")
        _print_ending(on, teller, directory / FOLDER)


def _emptied_folder(home: Path) -> Path:
    """The folder, without what an earlier telling wrote there."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        for pattern in OWN_FILES:
            for path in home.glob(pattern):
                path.unlink()
    except OSError as error:
        raise SettingsError(f"--output {str(home.parent)!r}: cannot be written to: {error}") from error
    return home


def _play_scene(scene: Scene, on: StoryWorld, teller: StoryPrinter) -> None:
    if scene.event:
        teller.print_event(scene.when, scene.who, scene.event(on))
        return
    said: list[str] = []
    between = scene.between_judging_and_acting
    report = on.sweep((lambda: said.append(between(on))) if between else None)
    for text in said:
        teller.print_event(scene.when, scene.who, text)
    teller.print_sweep(report, on.mails(), on.memories(), daily=f"{scene.when:%H:%M}" == story_events.DAILY_SWEEP)


def _print_ending(on: StoryWorld, teller: StoryPrinter, shown: Path) -> None:
    now = on.now
    rested = savings.rest_periods(on.reports, on.restored)
    teller.print_line()
    teller.print_line("Two weeks later", "bold underline")
    for label, text in (
        ("saved so far", _savings_text(rested, now)),
        ("not counted", _unpriced_text(rested, now)),
        ("steps", _action_counts_text(on.reports)),
        ("office hours", ", ".join(f"{name} {what} {n} times" for (name, what), n in sorted(teller.office_hours_counts.items()))),
        ("mails", f"{len(on.seen_mails)} in {shown / 'mail'}"),
        ("manifests", f"{len(list((on.home / 'manifests').glob('*/*.json')))} in {shown / 'manifests'}"),
        ("last report", f"{shown / 'report.html'} and {shown / 'report.json'}"),
    ):
        teller.print_line(f"  {label:<14}{text}")


def _savings_text(rested: Iterable[RestPeriod], now: datetime) -> str:
    """The sum, and what the three dearest of it are."""
    sums: dict[str, float] = {}
    for rest in rested:
        sums[rest.name] = sums.get(rest.name, 0.0) + (rest.usd(now) or 0.0)
    most = ", ".join(f"{name} {format_usd(usd)}" for name, usd in sorted(sums.items(), key=lambda pair: -pair[1])[:3])
    return f"{format_usd(sum(sums.values()))}, hours at rest times list price; most of it: {most}"


def _unpriced_text(rested: Iterable[RestPeriod], now: datetime) -> str:
    hours: dict[str, float] = {}
    for name, length in savings.unpriced_hours(rested, now):
        hours[name] = hours.get(name, 0) + length
    return ", ".join(f"{length:,.0f} hours of {name}, whose price is not known" for name, length in hours.items()) or "nothing"


def _action_counts_text(reports: Iterable[Report]) -> str:
    """How many steps of each sort came to what, such as `23 stop`, `1 stop refused`."""
    made = Counter(
        f.step.name.value + ("" if f.outcome.result is Result.DONE else f" {f.outcome.result.value}")
        for report in reports
        for f in report.findings
        if f.outcome.result in {Result.DONE, Result.REFUSED, Result.FAILED}
    )
    return ", ".join(f"{count} {what}" for what, count in made.most_common())
