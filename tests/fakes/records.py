"""Records as tests write them: the fields of a record, of its notice and of its action side by side."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reaper.model import Result, StepName
from reaper.record import Act, ManifestReference, Notice, Record, SideChange


def an_act(
    action: StepName = StepName.STOP,
    at: datetime | None = None,
    run: str = "run",
    *,
    id: str = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/e",
    kind: str = "sagemaker-endpoint",
    name: str = "e",
    region: str = "us-east-1",
    **fields: Any,
) -> Act:
    """An action on an endpoint, unless the test says otherwise."""
    return Act(
        action=action,
        at=at or datetime.fromisoformat("2026-11-21T10:17:00+00:00"),
        run=run,
        id=id,
        kind=kind,
        name=name,
        region=region,
        **fields,
    )


def a_record(
    *,
    announced: str | None = None,
    acted: StepName | None = None,
    acted_at: datetime | None = None,
    run: str = "run",
    result: Result | None = None,
    because: str | None = None,
    part: str | None = None,
    told_at: datetime | None = None,
    changes: tuple[SideChange, ...] = (),
    created: datetime | None = None,
    manifest: ManifestReference | None = None,
    **fields: Any,
) -> Record:
    """A record. `announced`: what its notice announced; `acted` to `manifest`: its action; what else a notice has makes one."""
    about_notice = {name: fields.pop(name) for name in list(fields) if name in Notice.__dataclass_fields__}
    notice = Notice(action=announced, **about_notice) if announced or any(about_notice.values()) else None
    act = None
    if acted is not None:
        act = an_act(
            acted,
            acted_at,
            run,
            result=result,
            because=because,
            part=part,
            told_at=told_at,
            changes=changes,
            created=created,
            manifest=manifest,
        )
    return Record(notice=notice, act=act, **fields)
