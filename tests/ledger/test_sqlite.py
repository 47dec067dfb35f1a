from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fakes.builders import DAY, NOW
from fakes.ledger_places import ARM, ARN
from fakes.records import a_record
from reaper.errors import CloudError, SettingsError
from reaper.ledger import opening
from reaper.record import Record


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "new" / "folders" / "ledger.db"


def opened(file: Path):
    return opening.open_ledger(f"sqlite://{file}", {})


def test_the_default_ledger_is_in_the_users_state_directory(tmp_path):
    ledger = opening.open_ledger(None, {"XDG_STATE_HOME": str(tmp_path)})
    ledger.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    ledger.close()
    assert (tmp_path / "ml-idle-reaper" / "ledger.db").is_file()


def test_the_ledgers_folder_is_private_to_its_user(file):
    opened(file).close()
    assert file.parent.stat().st_mode & 0o077 == 0


def test_processes_share_one_file_and_each_write_wins_once(file):
    code = (
        "import sys; from datetime import UTC, datetime; from reaper.ledger import opening; from reaper.record import Notice, Record\n"
        "kept = opening.open_ledger(sys.argv[1], {}); now = datetime(2026, 11, 21, tzinfo=UTC)\n"
        "print(sum(kept.write_record(f'r{n}', Record(notice=Notice(receipt=sys.argv[2])), 0, now) for n in range(50)))"
    )
    command = [sys.executable, "-c", code, f"sqlite://{file}"]
    running = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(4)]
    assert sum(int(process.communicate(timeout=60)[0]) for process in running) == 50
    ledger = opened(file)
    assert len(ledger.recall([f"r{n}" for n in range(50)], NOW).readable) == 50
    ledger.close()


def test_a_file_in_which_another_process_is_writing_is_opened(file):
    file.parent.mkdir(parents=True)
    writer = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    end_of_writing = threading.Timer(0.2, writer.close)
    end_of_writing.start()
    ledger = opened(file)
    end_of_writing.join()
    assert ledger.write_record(ARN, a_record(idle_since=NOW), 0, NOW)


def test_a_file_of_a_newer_version_is_refused(file):
    opened(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SettingsError, match="newer version"):
        opened(file)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_an_audit_without_a_file_reads_nothing_and_creates_none(file, tmp_path):
    ledger = opening.open_ledger(f"sqlite://{file}", {}, read_only=True)
    assert ARN not in ledger.recall([ARN], NOW)
    assert list(tmp_path.iterdir()) == []
    ledger.close()


@pytest.mark.parametrize("writing", [False, True])
def test_an_audit_reads_the_file_and_changes_nothing(file, tmp_path, writing):
    other = opened(file)
    other.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    if not writing:
        other.close()
    before = snapshot(tmp_path)
    ledger = opening.open_ledger(f"sqlite://{file}", {}, read_only=True)
    assert ledger.record(ARN, NOW) == a_record(warned_at=NOW, version=1)
    with pytest.raises(CloudError, match="sqlite:Write"):
        ledger.write_record(ARN, Record(), 1, NOW)
    ledger.close()
    assert {path: data for path, data in snapshot(tmp_path).items() if not path.endswith("-shm")} == {
        path: data for path, data in before.items() if not path.endswith("-shm")
    }
    assert set(snapshot(tmp_path)) == set(before)
    other.close()


def test_an_audit_does_not_upgrade_the_file(file, tmp_path):
    file.parent.mkdir(parents=True)
    sqlite3.connect(file).executescript("PRAGMA user_version = 0; CREATE TABLE old (x)").connection.close()
    before = snapshot(tmp_path)
    ledger = opening.open_ledger(f"sqlite://{file}", {}, read_only=True)
    assert ARN not in ledger.recall([ARN], NOW)
    ledger.close()
    assert snapshot(tmp_path) == before


def test_an_audit_refuses_a_file_of_a_newer_version_too(file):
    opened(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SettingsError, match="newer version"):
        opening.open_ledger(f"sqlite://{file}", {}, read_only=True)


def test_a_file_that_is_no_database_is_refused(file):
    file.parent.mkdir(parents=True)
    file.write_text("this is a letter, not a database, and it is long enough to look at\n" * 20)
    for read_only in (False, True):
        with pytest.raises(SettingsError, match="not a database"):
            opening.open_ledger(f"sqlite://{file}", {}, read_only=read_only)


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError, match="can't be opened"):
        opened(tmp_path / "file" / "ledger.db")


def test_an_unreadable_memory_is_an_error_and_never_empty(file):
    ledger = opened(file)
    ledger.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    ledger.write_record(ARM, a_record(warned_at=NOW), 0, NOW)
    for broken in (
        "not JSON",
        "[]",
        '{"document": 5}',
        '{"document": "{}}"}',
        '{"document": null}',
        b"\xff\xfe",
    ):
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE rows SET row = ? WHERE name = ?", (broken, ARN))
        connection.close()
        recalled = ledger.recall([ARN, ARM], NOW)
        assert recalled.record(ARM).notice.warned_at == NOW
        with pytest.raises(CloudError, match="Read"):
            recalled.record(ARN)
    ledger.close()


def test_a_failing_statement_is_a_cloud_error(file):
    ledger = opened(file)
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE rows")
    connection.close()
    with pytest.raises(CloudError, match="sqlite:Read: no such table"):
        ledger.recall([ARN], NOW)
    with pytest.raises(CloudError, match="sqlite:Write"):
        ledger.write_record(ARN, Record(), 0, NOW + DAY)
    ledger.close()


def test_a_tilde_in_the_address_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    opening.open_ledger("sqlite://~/mine.db", {}).close()
    assert (tmp_path / "mine.db").is_file()
