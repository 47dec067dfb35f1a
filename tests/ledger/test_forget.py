"""An address is removed from every row of every ledger, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.histories import history_of
from fakes.in_memory_store import InMemoryStore
from fakes.ledger_places import ARM, ARN, in_memory
from fakes.records import a_record, an_act, changed
from reaper.errors import CloudError, Reason
from reaper.ledger import sqlite
from reaper.ledger.forget import CHANGED, FORGOTTEN, forget_address
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import AtVersion, Category, HistoryEntry, Row, comparable_id
from reaper.limits import holds
from reaper.limits.holds import ALL_ACCOUNTS, Release
from reaper.model import Pause
from reaper.notices.channels import folder
from reaper.notices.channels.delivery import ChannelContext
from reaper.notices.message import Audience, Message
from reaper.pending import stop_switch
from reaper.policy.channel_settings import Folder
from reaper.record import ManifestReference, Record, Snooze

JO = "jo@example.com"
RECORD = a_record(
    idle_since=NOW - 3 * DAY,
    warned_at=NOW - 2 * DAY,
    receipt=f"smtp: 250 accepted for <{JO}>",
    to=JO,
    escalated_to=("admins", JO),
    act=an_act(at=NOW, id=ARN, owner=JO, because=f"{JO} asked", manifest=ManifestReference(address="s3://m", sha256="0")),
)
SNOOZE = Snooze(until=NOW + 500 * DAY, at=NOW, by=f"Jo Martin ({JO})", reason=f"ask {JO.upper()}, please", disowned_by=JO)
OTHERS, THEIRS = a_record(to="mojo@example.com"), Snooze(reason="jo@example.com.au asked")
LEFT = [comparable_id(ARM)] * 2
"""The rows that name somebody with a longer address."""
KEPT = HistoryEntry(id=ARN, when=NOW, what="kept", by=f"Jo ({JO})", because=f"snoozed: {JO} needs it")
WARNED = HistoryEntry(id=ARN, when=NOW + HOUR, what="warned", by="receipt-1", because="idle for 3 days")


def fill(ledger: Ledger) -> None:
    ledger.write_record(ARN, RECORD, 0, NOW)
    ledger.write_snooze(ARN, SNOOZE, 0, NOW)
    ledger.write_record(ARM, OTHERS, 0, NOW)
    ledger.write_snooze(ARM, THEIRS, 0, NOW)
    for entry in (KEPT, WARNED):
        ledger.add_history(entry)
    holds.release_actions(ledger, JO, NOW)
    stop_switch.set_pause(ledger, Pause(by=JO), NOW)


def names_jo(ledger: Ledger) -> list[Row]:
    return [row for row in ledger.store.scan() if any(JO in text.lower() for text in row.texts.values())]


def test_the_address_is_gone_from_every_row(ledger_location):
    ledger = ledger_location.open_ledger()
    fill(ledger)
    done = list(forget_address(ledger, JO))
    assert sorted((row.sort, *row.columns) for row in done) == [
        ("history", "because", "by"),
        ("record", "act.because", "act.owner", "notice.escalated_to", "notice.receipt", "notice.to"),
        ("snooze", "by", "disowned_by", "reason"),
        ("state", "by"),
        ("state", "release.by"),
    ]
    assert [row.error for row in done] == [""] * 5
    again = ledger_location.open_ledger()
    assert [row.key.name for row in names_jo(again)] == LEFT
    assert list(forget_address(again, JO)) == []


@in_memory
@pytest.mark.parametrize("address", [JO, "jo.o'neil_1+ml@example.com"])
def test_the_address_is_gone_from_the_receipt_of_a_mail_in_a_folder(ledger, tmp_path: Path, address: str):
    channel = folder.Channel(Folder(type="folder", path=str(tmp_path)), ChannelContext(read_secret=str, clock=lambda: NOW))
    receipt = f"folder: {channel.send(Message(audience=Audience.OWNERS, subject='s', text='t', html='', to=address))}"
    assert address in receipt
    ledger.write_record(ARN, a_record(receipt=receipt, to=address), 0, NOW)
    ledger.add_history(replace(WARNED, by=receipt))
    assert [row.error for row in forget_address(ledger, address)] == ["", ""]
    forgotten = receipt.replace(address, FORGOTTEN)
    assert (ledger.record(ARN, NOW).notice.receipt, history_of(ledger, ARN)[0].by) == (forgotten, FORGOTTEN)


@in_memory
@pytest.mark.parametrize(
    "other", ["jo@example.com-pany.org", "jo@example.com-1242dd95.emlx.org", "jo@example.com.au", "mojo@example.com"]
)
def test_a_longer_address_stays(ledger, other: str):
    ledger.write_record(ARN, a_record(to=other), 0, NOW)
    assert list(forget_address(ledger, JO)) == []


@in_memory
def test_everything_else_about_a_resource_stays(ledger):
    fill(ledger)
    list(forget_address(ledger, JO.upper()))
    recalled = ledger.recall([ARN, ARM], NOW)
    assert recalled.record(ARN) == changed(
        RECORD,
        version=2,
        receipt=f"smtp: 250 accepted for <{FORGOTTEN}>",
        to=FORGOTTEN,
        escalated_to=("admins", FORGOTTEN),
        act=replace(RECORD.act, owner=None, because=f"{FORGOTTEN} asked"),
    )
    snooze = replace(SNOOZE, version=2, by=FORGOTTEN, reason=f"ask {FORGOTTEN}, please", disowned_by=FORGOTTEN)
    assert recalled.snooze(ARN) == snooze
    assert (recalled.record(ARM), recalled.snooze(ARM)) == (replace(OTHERS, version=1), replace(THEIRS, version=1))
    assert history_of(ledger, ARN) == [replace(KEPT, by=FORGOTTEN, because=f"snoozed: {FORGOTTEN} needs it"), WARNED]
    assert stop_switch.read_pause(ledger, NOW) == Pause(by=FORGOTTEN, at=NOW)
    release = holds.read_hold_rows(ledger, [], NOW).rows[ALL_ACCOUNTS].release
    assert release == Release(given_at=NOW, valid_until=NOW + DAY, by=FORGOTTEN)


@in_memory
def test_the_address_is_gone_from_the_beginning_of_a_line(ledger):
    ledger.write_record(ARN, Record(act=an_act(because=f"refused for\n{JO}")), 0, NOW)
    assert [row.columns for row in forget_address(ledger, JO)] == [("act.because",)]
    assert ledger.record(ARN, NOW).act.because == f"refused for\n{FORGOTTEN}"


@in_memory
def test_ids_and_addresses_of_manifests_stay(ledger):
    act = an_act(at=NOW, id=f"{ARN}-{JO}", name=JO, manifest=ManifestReference(address=f"s3://{JO}", sha256="0"))
    ledger.write_record(ARN, Record(act=act), 0, NOW)
    assert list(forget_address(ledger, JO)) == []
    assert ledger.record(ARN, NOW).act == act


def test_a_snooze_keeps_its_retention(ledger_location):
    ledger = ledger_location.open_ledger()
    fill(ledger)
    before = dict(ledger_location.stored_columns(ARN)) if ledger_location.address != "memory:" else {}
    list(forget_address(ledger, JO))
    after = dict(ledger_location.stored_columns(ARN)) if ledger_location.address != "memory:" else {}
    assert (after.get("touched"), after.get("expires")) == (before.get("touched"), before.get("expires"))
    assert ledger.snooze(ARN, NOW + 499 * DAY).until == SNOOZE.until


@pytest.mark.parametrize("sort", [Category.RECORD, Category.SNOOZE, Category.STATE])
def test_a_row_that_changed_since_is_not_overwritten(ledger, sort: Category):
    fill(ledger)
    name = "pause" if sort is Category.STATE else ARN
    [row] = [row for row in ledger.store.scan() if row.key.category is sort and row.key.name == name]
    ledger.write_record(ARN, changed(RECORD, receipt="later"), 1, NOW)
    ledger.write_snooze(ARN, replace(SNOOZE, reason="later"), 1, NOW)
    stop_switch.end_pause(ledger, "ann", NOW)
    before = AtVersion(version=int(row.version))
    assert not ledger.store.put(row.key, row.texts, row.touched, before)
    assert (ledger.record(ARN, NOW).notice.receipt, ledger.snooze(ARN, NOW).reason) == ("later", "later")
    assert stop_switch.read_pause(ledger, NOW) is None


class BusyStore(InMemoryStore):
    """A store whose rows another process changes a few times, and whose removals may be cut off."""

    changes, cut_off = 0, False

    def put(self, key, columns, touched, condition=None):
        if self.changes and condition is not None:
            self.changes -= 1
            return False
        return super().put(key, columns, touched, condition)

    def delete(self, key, having=None):
        if self.cut_off:
            raise CloudError(Reason.UNREACHABLE, "dynamodb:DeleteItem", "no answer")
        super().delete(key, having)


def busy(changes: int = 0, cut_off: bool = False) -> tuple[Ledger, BusyStore]:
    """A filled ledger and the busy store under it."""
    store = BusyStore()
    ledger = Ledger(store)
    fill(ledger)
    store.changes, store.cut_off = changes, cut_off
    return ledger, store


def test_a_row_that_another_process_changes_is_read_again():
    ledger, _ = busy(changes=5)
    assert [row.error for row in forget_address(ledger, JO)] == [""] * 5
    assert [row.key.name for row in names_jo(ledger)] == LEFT


def test_a_row_that_keeps_changing_is_reported():
    ledger, _ = busy(changes=99)
    assert [row.error for row in forget_address(ledger, JO) if row.sort is not Category.HISTORY] == [CHANGED] * 4


def test_a_history_entry_is_added_redacted_before_the_old_one_goes():
    ledger, store = busy(cut_off=True)
    with pytest.raises(CloudError, match="no answer"):
        list(forget_address(ledger, JO))
    redacted = replace(KEPT, by=FORGOTTEN, because=f"snoozed: {FORGOTTEN} needs it")
    assert set(history_of(ledger, ARN)) == {redacted, KEPT, WARNED}
    store.cut_off = False
    list(forget_address(ledger, JO))
    assert history_of(ledger, ARN) == [redacted, WARNED]


def test_what_is_removed_is_gone_from_the_sqlite_file(tmp_path: Path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(sqlite.open_store(str(path), {}))
    fill(ledger)
    ledger.close()
    assert JO.encode() in path.read_bytes()
    ledger = Ledger(sqlite.open_store(str(path), {}))
    assert not [row for row in forget_address(ledger, JO) if row.error]
    ledger.close()
    other = b"jo@example.com.au"
    left = (
        b"".join(file.read_bytes() for file in tmp_path.iterdir()).lower().replace(other, b"").replace(b"mojo@example.com", b"")
    )
    assert JO.encode() not in left
