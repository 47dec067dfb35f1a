"""`notify_above` and `notices.send` in a policy file: what is refused, and when notices go out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reaper import registry
from reaper.calendars.office_hours import opens_at
from reaper.errors import PolicyError
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy

SEND = 'notices: {send: "mon-fri 09:00-17:00", tz: Europe/Berlin}'
FIX = "end the hours an hour before notices.send, send notices for longer, or remove force"


def parsed(*lines: str) -> Policy:
    return parse_policy("\n".join(["version: 1", *lines]), "p.yaml", registry.kind_names(), ["sagemaker-notebook"])


def forced(on: str, tz: str = "Europe/Berlin", force: str = "true") -> list[str]:
    return ["rules:", "  - name: office", f'    hours: {{on: "{on}", tz: {tz}, force: {force}}}']


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(["notify_above: {usd_per_day: 0}"], "p.yaml:2: notify_above.usd_per_day: 0 is not valid", id="no floor"),
        pytest.param(
            ["notify_above: {usd_per_day: .inf}"], "p.yaml:2: notify_above.usd_per_day: '.inf' is not", id="an endless floor"
        ),
        pytest.param(["notify_above: {usd: 5}"], "p.yaml:2: notify_above.usd: unknown key; valid here: usd_per_day", id="a typo"),
        pytest.param(
            ["notify_above: 5"],
            "p.yaml:2: notify_above: 5 is not valid: expected keys and values, such as `{usd_per_day: 5}`",
            id="bare",
        ),
        pytest.param(
            ["notices:", "  send: weekdays"],
            "p.yaml:3: notices.send: 'weekdays' is not valid: expected days and times such as `mon-fri 07:00-21:00`",
            id="no times",
        ),
        pytest.param(
            ["notices:", "  monthly: true", '  send: "mon-fri 09:00-09:59"'],
            "p.yaml:4: notices.send: 'mon-fri 09:00-09:59' is not valid: expected an hour or more on each day, such as "
            "`mon-fri 09:00-17:00`, because a sweep could miss less",
            id="less than an hour",
        ),
        pytest.param(['notices: {send: "mon 09:00-17:00", tz: Berlin}'], "did you mean Europe/Berlin?", id="no such zone"),
        pytest.param(
            [SEND, *forced("mon-fri 07:00-17:00")],
            "p.yaml:5: rules[0].hours: force needs a notice in the hour after 17:00 Europe/Berlin on mon, and notices.send is "
            f"mon-fri 09:00-17:00 Europe/Berlin; {FIX}",
            id="the hour after the end is outside",
        ),
        pytest.param(
            [SEND, *forced("mon-fri 07:00-16:01")], "in the hour after 16:01 Europe/Berlin on mon", id="a minute of it is"
        ),
        pytest.param(
            [SEND, *forced("mon-fri 06:00-08:59")], "in the hour after 08:59 Europe/Berlin on mon", id="the end is outside"
        ),
        pytest.param(
            [SEND, *forced("mon-sat 07:00-16:00")], "in the hour after 16:00 Europe/Berlin on sat", id="one day is outside"
        ),
        pytest.param([SEND, *forced("mon-fri 07:00-14:30", "UTC")], "in the hour after 14:30 UTC on mon", id="in summer"),
        pytest.param(
            [SEND, *forced("mon-fri 03:00-11:30", "America/New_York")], "11:30 America/New_York on", id="across the ocean"
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_line_and_fix(lines: list[str], message: str):
    with pytest.raises(PolicyError) as error:
        parsed(*lines)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([SEND, *forced("mon-fri 07:00-16:00")], id="its last hour is inside"),
        pytest.param([SEND, *forced("mon-fri 07:00-14:00", "UTC")], id="in winter and summer"),
        pytest.param([SEND, *forced("mon-sun 07:00-21:00", force="false")], id="without force"),
        pytest.param(forced("mon-sun 07:00-21:00"), id="at any time"),
        pytest.param(['notices: {send: "mon-fri 09:00-10:00"}'], id="an hour"),
    ],
)
def test_what_can_be_announced_is_valid(lines: list[str]):
    assert parsed(*lines)


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        pytest.param(datetime(2026, 11, 20, 15, 59, tzinfo=UTC), None, id="friday, its last minute"),
        pytest.param(datetime(2026, 11, 20, 16, 0, tzinfo=UTC), datetime(2026, 11, 23, 8, tzinfo=UTC), id="friday, its end"),
        pytest.param(datetime(2026, 3, 28, 12, 0, tzinfo=UTC), datetime(2026, 3, 30, 7, tzinfo=UTC), id="clocks go forward"),
        pytest.param(datetime(2026, 11, 23, 7, 59, tzinfo=UTC), datetime(2026, 11, 23, 8, tzinfo=UTC), id="monday, too early"),
    ],
)
def test_notices_go_out_again_when_the_hours_begin(now: datetime, opens: datetime | None):
    assert opens_at(parsed(SEND).send_hours, now) == opens
    assert opens_at(parsed("owners: {tz: Europe/Berlin}", SEND.replace(", tz: Europe/Berlin", "")).send_hours, now) == opens
    assert opens_at(parsed().send_hours, now) is None
    assert opens_at(parsed('notices: {send: "mon-sun 00:00-24:00"}').send_hours, now) is None
