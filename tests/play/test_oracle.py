"""The play's own rules, where a soak has shown that they asked for more than the product promises, or could not go on."""

from __future__ import annotations

from datetime import datetime
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from play import letters, people, terms
from play.claims import FOOLED
from play.clock import Clock
from play.halves import Half
from play.oracle import Oracle
from play.post import Mail, Notice
from play.scene import Scene
from play.scripts import BEGIN, Script
from play.season import Season
from play.terms import DAY, HOUR, MINUTE, Caps
from play.thing import Truth
from reaper.azure.executor import OWN_CHANGE_TAKES

BORN, BEN = BEGIN - 40 * DAY, "ben@example.com"
JUMP = "no notice is sent, because 14 of 20 sagemaker-endpoint resources in this run are idle or were acted on, up from 30%"


def thing(name: str, **more: Any) -> Any:
    plain: dict[str, Any] = {
        "name": name, "cloud": "aws", "kind": "sagemaker-endpoint", "terms": terms.of(name), "born": BORN, "silent": False, "inside": None, "guests": [],
        "id": f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}", "truth": Truth(tags=[(BORN, {"owner": BEN})]), "exists": lambda: True,
    }  # fmt: skip
    return SimpleNamespace(**{**plain, **more})


def oracle_of(*things: Any) -> Oracle:
    return Oracle({one.name: one for one in things})


def scene(began: datetime, number: int = 1, **more: Any) -> Scene:
    plain: dict[str, Any] = {
        "verb": "sweep", "mode": "enforce", "ended": began, "status": 0, "stderr": "", "out_of_order": frozenset(), "before": {}, "after": {},
        "changes": [], "mails": [], "cards": [], "report": None, "caps": Caps(), "calm": False,
    }  # fmt: skip
    return Scene(number=number, began=began, **{**plain, **more})


def row(name: str, **more: Any) -> dict[str, Any]:
    plain = {
        "name": name, "kind": "sagemaker-endpoint", "cloud": "aws", "account": "123456789012", "region": "us-east-1", "state": "idle",
        "step": "none", "step_because": "", "outcome": None, "usd_per_hour": 1.0,
    }  # fmt: skip
    return {**plain, **more}


def mail(at: datetime, command: int, announces: str | None, name: str = "strict-n0") -> Mail:
    notice = Notice(
        name=name, announces=announces, date=at + DAY if announces else None, is_done=False, rest=False, link=None, text=""
    )
    return Mail(to=BEN, at=at, subject="", text="", command=command, notices=(notice,))


def test_restores_that_outlast_a_gap_delay_the_next_sweep(monkeypatch: pytest.MonkeyPatch):
    lived: list[tuple[datetime, datetime]] = []
    one = thing("plain-n0", owed=[], live=lambda since, until: lived.append((since, until)))
    none: Any = None
    play = Season(Random(1), Clock(BEGIN), none, none, none, none, none, none, [one], none)
    monkeypatch.setattr(people, "between", lambda play, *others: play.clock.to(play.clock.now + 50 * MINUTE))
    play.until(BEGIN + 30 * MINUTE, Script())
    assert (play.clock.now, lived) == (BEGIN + 50 * MINUTE, [(BEGIN, BEGIN + 50 * MINUTE)])


def test_a_person_changes_a_half_done_deployment_after_its_own_change():
    changed: list[datetime] = []
    deployment = thing("legacy-d1", cloud="azure", started_by_hand=changed.append)
    oracle, dice = oracle_of(deployment), SimpleNamespace(random=lambda: 0.3)
    play: Any = SimpleNamespace(things=[deployment], clock=Clock(BEGIN + MINUTE), dice=dice, oracle=oracle, say=print)
    half = oracle.halves.open["legacy-d1"] = Half(
        name="legacy-d1", at=BEGIN, command=1, before={"traffic": 100}, ours={"traffic": 0}
    )
    people._half_way(play, half)
    assert half.touched
    assert changed[0] > half.at + OWN_CHANGE_TAKES


@pytest.mark.parametrize(
    ("earlier", "objections"),
    [
        pytest.param({}, 1, id="nothing more"),
        pytest.param({"out_of_order": frozenset({"kill"}), "status": -9}, 0, id="a killed command"),
        pytest.param({"report": {"findings": [row("plain-e5", step="stop", outcome="refused")]}}, 0, id="a refused one"),
    ],
)
def test_what_came_to_nothing_counts_toward_a_limit(earlier: dict[str, Any], objections: int):
    oracle = oracle_of(*(thing(f"plain-e{n}") for n in range(6)))
    held = [row(f"plain-e{n}", step="hold", step_because="6 actions exceed max_acts: 5") for n in range(5)]
    oracle.saw(scene(BEGIN, 1, **earlier))
    oracle.saw(scene(BEGIN + 4 * HOUR, 2, report={"findings": held}))
    assert len([why for _, why in oracle.wrong if "are on hold" in why]) == objections


@pytest.mark.parametrize(("days", "objections"), [(1, 0), (3, 1)])
def test_a_loss_soon_after_a_released_jump_goes_unnoticed(days: int, objections: int):
    def used_unseen(n: int) -> Any:
        return thing(f"shop-e{n}", silent=True, truth=Truth(tags=[(BORN, {"owner": BEN})], unseen=[(BEGIN, BEGIN + 9 * DAY)]))

    oracle = oracle_of(*(used_unseen(n) for n in range(FOOLED)))
    oracle.saw(scene(BEGIN, report={"findings": [row("plain-e0", step_because=JUMP)]}))
    oracle.releases.append((BEGIN + MINUTE, BEGIN + DAY))
    for day in range(1, days + 1):
        oracle.saw(scene(BEGIN + day * DAY, report={"findings": [row("plain-e0", state="active")]}))
    at = BEGIN + (days + 1) * DAY
    told = mail(at, 9, "stop", "shop-e0")
    oracle.saw(scene(at, 9, mails=[told], report={"findings": [row(f"shop-e{n}") for n in range(FOOLED)]}))
    assert len([why for _, why in oracle.wrong if "have been lost" in why]) == objections


@pytest.mark.parametrize(("is_left_out", "objections"), [(True, 0), (False, 1)])
def test_office_hours_are_new_after_a_canary_without_them(is_left_out: bool, objections: int):
    oracle, first, second = oracle_of(thing("strict-n0")), mail(BEGIN + MINUTE, 1, None), mail(BEGIN + 2 * DAY, 2, "stop")
    oracle.scenes += [scene(BEGIN, 1), scene(BEGIN + 2 * DAY, 2)]
    oracle.left_out += [BEGIN] if is_left_out else []
    oracle.mails += [first, second]
    assert len([why for why in letters.check(oracle, second) if "office hours" in why]) == objections
