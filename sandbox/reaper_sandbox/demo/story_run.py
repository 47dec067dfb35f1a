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
from reaper.text import money
from reaper.model import Report, Result
from reaper.report import html
from reaper.report import json as plain
from reaper_sandbox.demo import savings, story_events
from reaper_sandbox.demo.savings import Rest
from reaper_sandbox.demo.story_world import Stage, stage
from reaper_sandbox.demo.story_events import Scene
from reaper_sandbox.demo.story_text import Teller
from reaper.cli.options import progress

FOLDER = "story"
MADE = ("ledger.db*", "report.html", "report.json", "mail/*.eml", "mail/*.html", "manifests/*/*.json")
"""What an earlier telling left there, and nothing else is taken away."""


def play(directory: Path) -> None:
    """Tells the story on standard output. Raises SettingsError where `directory` cannot be written to.

    On a terminal the story is its own progress; elsewhere progress goes to standard error.
    """
    out = Console(highlight=False, file=sys.stdout)
    if out.is_terminal:
        _played(directory, out, lambda text: None)
        return
    with progress() as tell:
        _played(directory, out, tell)


def _played(directory: Path, out: Console, progress: Callable[[str], None]) -> None:
    home = _fresh(directory / FOLDER)
    teller = Teller(out=out)
    progress("both clouds: setting up the pretend fleet")
    with stage(home.resolve()) as on:
        teller.plain("Two weeks in fast motion: pretend clouds, real sweeps in mode enforce. Times are UTC, costs list prices.")
        scenes = story_events.scenes()
        for number, scene in enumerate(scenes, 1):
            progress(f"{scene.when:%a %d %b %H:%M} ({number} of {len(scenes)})")
            on.at(scene.when)
            _scene(scene, on, teller)
        (home / "report.html").write_text(html.render(on.reports[-1]), encoding="utf-8")
        (home / "report.json").write_text(plain.render(on.reports[-1]), encoding="utf-8")
        _ending(on, teller, directory / FOLDER)


def _fresh(home: Path) -> Path:
    """The folder, without what an earlier telling wrote there."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        for pattern in MADE:
            for path in home.glob(pattern):
                path.unlink()
    except OSError as error:
        raise SettingsError(f"--output {str(home.parent)!r}: cannot be written to: {error}") from error
    return home


def _scene(scene: Scene, on: Stage, teller: Teller) -> None:
    if scene.deed:
        teller.scene(scene.when, scene.who, scene.deed(on))
        return
    said: list[str] = []
    between = scene.between
    report = on.sweep((lambda: said.append(between(on))) if between else None)
    for text in said:
        teller.scene(scene.when, scene.who, text)
    teller.sweep(report, on.mails(), on.memories(), daily=f"{scene.when:%H:%M}" == story_events.DAILY)


def _ending(on: Stage, teller: Teller, shown: Path) -> None:
    now = on.now
    rested = savings.rests(on.reports, on.restored)
    teller.plain()
    teller.plain("Two weeks later", "bold underline")
    for label, text in (
        ("saved so far", _saved(rested, now)),
        ("not counted", _unknown(rested, now)),
        ("steps", _acts(on.reports)),
        ("office hours", ", ".join(f"{name} {what} {n} times" for (name, what), n in sorted(teller.counted.items()))),
        ("mails", f"{len(on.seen)} in {shown / 'mail'}"),
        ("manifests", f"{len(list((on.home / 'manifests').glob('*/*.json')))} in {shown / 'manifests'}"),
        ("last report", f"{shown / 'report.html'} and {shown / 'report.json'}"),
    ):
        teller.plain(f"  {label:<14}{text}")


def _saved(rested: Iterable[Rest], now: datetime) -> str:
    """The sum, and what the three dearest of it are."""
    sums: dict[str, float] = {}
    for rest in rested:
        sums[rest.name] = sums.get(rest.name, 0.0) + (rest.usd(now) or 0.0)
    most = ", ".join(f"{name} {money(usd)}" for name, usd in sorted(sums.items(), key=lambda pair: -pair[1])[:3])
    return f"{money(sum(sums.values()))}, hours at rest times list price; most of it: {most}"


def _unknown(rested: Iterable[Rest], now: datetime) -> str:
    hours: dict[str, float] = {}
    for name, length in savings.unpriced(rested, now):
        hours[name] = hours.get(name, 0) + length
    return ", ".join(f"{length:,.0f} hours of {name}, whose price is not known" for name, length in hours.items()) or "nothing"


def _acts(reports: Iterable[Report]) -> str:
    """How many steps of each sort came to what, such as `23 stop`, `1 stop refused`."""
    made = Counter(
        f.step.move.value + ("" if f.outcome.result is Result.DONE else f" {f.outcome.result.value}")
        for report in reports
        for f in report.findings
        if f.outcome.result in {Result.DONE, Result.REFUSED, Result.FAILED}
    )
    return ", ".join(f"{count} {what}" for what, count in made.most_common())
