"""Lets version 49f8b6c of the product write the ledgers that are kept beside this file. See README.md; no test runs it."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import core.enforcer
import pytest
from azure.data.tables import TableClient
from core import stores
from core.enforcer import Enforcer, policy
from make_policy import KEYS, POLICY
from moto.server import ThreadedMotoServer
from reaper.desk import Desk
from reaper.offer import Offer
from reaper.token import Keys

import azurite
from reaper import enforce
from reaper.ledger import Ledger
from reaper.snooze import Request, answer


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A ledger of a process that can be killed: nothing is written by a dead one."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.dead = ledger, False

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise Killed
        return getattr(self.ledger, name)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def begun(ledger: Ledger, most: int) -> Enforcer:
    """A deployment with links in its mails, on a Monday."""

    def desk(**fields: Any) -> Desk:
        return Desk(**{**fields, "offer": Offer(base="https://keep.example.com", keys=Keys(**KEYS))})

    core.enforcer.Desk = desk
    return Enforcer(
        policy=policy(POLICY.replace("MOST", str(most))), now=at(9, 10), ledger=Mortal(ledger), regions=("us-east-1", "eu-west-1")
    )


def add(enforcer: Enforcer, *names: str, owner: str = "jo@example.com", **fields: Any) -> None:
    for name in names:
        enforcer.depot.add(name, created=at(1, 0), up=at(1, 0), tags={"owner": owner}, **fields)


def swept(enforcer: Enforcer, when: datetime) -> None:
    enforcer.now = when
    enforcer.sweep()


def killed(enforcer: Enforcer, when: datetime, call: str) -> None:
    """A sweep whose process dies in its first action: before its call (`carry`) or right after it (`carried`)."""

    def die(name: str, _: str) -> None:
        if name == call:
            enforcer.ledger.dead = True
            raise Killed

    enforcer.now, enforcer.depot.blunder = when, die
    try:
        enforcer.sweep()
    except Killed:
        enforcer.depot.blunder, enforcer.ledger.dead = lambda name, _: None, False
        return
    raise AssertionError("nothing was killed")


def link(enforcer: Enforcer, name: str) -> str:
    """The link in the newest mail about it."""
    about = next(m.text for m in reversed(enforcer.post.messages) if f" {name}\n" in m.text)
    return about.partition(f" {name}\n")[2].partition("Keep it: ")[2].split()[0]


def click(enforcer: Enforcer, name: str, days: int, when: datetime) -> None:
    form = f"t={link(enforcer, name).partition('t=')[2]}&days={days}&reason=needed&name=jo".encode()
    reply = answer(Request(method="POST", path="/keep", body=form), enforcer.ledger.ledger, Keys(**KEYS), when)
    assert reply.status == 200, reply.note


def notices(ledger: Ledger) -> Enforcer:
    """Notices, snoozes, actions and kills of two weeks, up to the small hours of Friday 20 November."""
    enforcer = begun(ledger, 20)
    add(enforcer, "done-stop", "slow-reminded")
    swept(enforcer, at(9, 10))
    swept(enforcer, at(12, 10))
    swept(enforcer, at(16, 10))
    add(enforcer, "k1-stop-made", "k2-stop-unmade", "k3-delete-made", "k4-delete-unmade", owner="sam@example.com")
    add(enforcer, "past-due", "woken", "linked")
    swept(enforcer, at(17, 2))
    add(enforcer, "office-night", "announced", "snoozed")
    swept(enforcer, at(19, 10))
    click(enforcer, "woken", 1, at(19, 10, 30))
    click(enforcer, "snoozed", 7, at(19, 12))
    add(enforcer, "office-told")
    swept(enforcer, at(19, 22))
    killed(enforcer, at(20, 2, 30), "carried")
    killed(enforcer, at(20, 2, 46), "carry")
    killed(enforcer, at(20, 3, 2), "carried")
    killed(enforcer, at(20, 3, 18), "carry")
    return enforcer


def holds(ledger: Ledger) -> Enforcer:
    """A hold that was released, another that was not, and a jump of the idle share."""
    enforcer = begun(ledger, 1)
    busy = [at(9, 0) + timedelta(hours=hour) for hour in range(8 * 24)]
    add(enforcer, *(f"shop-{n}" for n in range(4)), region="eu-west-1", uses=busy)
    add(enforcer, "first-1", "first-2")
    for day in (14, 15, 16):
        swept(enforcer, at(day, 10))
    add(enforcer, "second-1", "second-2", "second-3")
    swept(enforcer, at(16, 18))
    swept(enforcer, at(17, 11))
    enforcer.now = at(17, 12)
    enforce.release(enforcer.ledger, "lee", enforcer.now, timedelta(days=1))
    swept(enforcer, at(17, 13))
    swept(enforcer, at(19, 18, 1))
    return enforcer


PLAYS: dict[str, Callable[[Ledger], Enforcer]] = {"notices": notices, "holds": holds}


def world(enforcer: Enforcer) -> dict[str, Any]:
    """What is outside the ledger: the things, the manifests, the links that were mailed last, and the time."""
    links = {}
    for name in enforcer.depot.things:
        try:
            links[name] = link(enforcer, name)
        except (StopIteration, IndexError):
            continue
    things = [asdict(thing) for thing in enforcer.depot.things.values()]
    for thing in things:
        thing["uses"] = thing["uses"][-3:]
    return {"now": enforcer.now, "runs": enforcer.runs, "things": things, "manifests": enforcer.store.texts, "links": links}


def write(name: str, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"
    Path(sys.argv[1], name).write_text(text)


def main() -> None:
    for play, written in PLAYS.items():
        path = Path(sys.argv[1], f"{play}.db")
        with _sqlite(path) as ledger:
            write(f"{play}.world.json", world(written(ledger)))
        with closing(sqlite3.connect(path)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            write(f"{play}.sql", "\n".join([*connection.iterdump(), f"PRAGMA user_version = {version};"]) + "\n")
        path.unlink()
    with pytest.MonkeyPatch.context() as patch, azurite.tables() as tables:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        for play, written in PLAYS.items():
            store = stores.dynamodb(f"http://{host}:{port}", patch)
            written(store.open())
            items = boto3.client("dynamodb").scan(TableName=store.address.rpartition("/")[2])["Items"]
            write(f"{play}.dynamodb.json", sorted(items, key=lambda item: (item["pk"]["S"], item["sk"]["S"])))
            store = stores.table(tables)
            written(store.open())
            with TableClient.from_connection_string(tables, store.address.rpartition("/")[2]) as client:
                write(f"{play}.table.json", [dict(entity) for entity in client.list_entities()])
        server.stop()


@contextmanager
def _sqlite(path: Path) -> Any:
    path.unlink(missing_ok=True)
    store = stores.Store(f"sqlite://{path}", {})
    try:
        yield store.open()
    finally:
        store.close()


if __name__ == "__main__":
    main()
