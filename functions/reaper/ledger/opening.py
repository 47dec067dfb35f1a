"""Opens a ledger: its address chooses the implementation, and its format says whether this version and this deployment may write to it.

`REAPER_LEDGER` is `memory:`, `sqlite:///path`, `dynamodb://table` or `table://account/table`. By default, SQLite keeps the ledger in the
user's state directory (https://specifications.freedesktop.org/basedir-spec/latest/).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path, PurePath, PureWindowsPath

from reaper.duration import format_duration
from reaper.errors import CloudError, Reason, SettingsError
from reaper.extras import install_command
from reaper.ledger.ledger import Ledger, write_until_accepted
from reaper.ledger.rows import NamedRow
from reaper.record import MAX_CLOCK_SKEW

FORMAT, FORMAT_ROW = 3, "format"
"""The format that this version writes, and the named row that says so. It names the ledger's deployment, too."""
START_OVER = (
    "delete it (the file, or the rows of the table) to start over: notices, snoozes, the history and savings are lost, manifests stay, "
    "and `reaper restore --manifest ADDRESS --trust-manifest` still undoes an action"
)
MAX_DEPLOYMENT = 1024
MODULE_BY_SCHEME = {
    "memory": "reaper.ledger.sqlite",
    "sqlite": "reaper.ledger.sqlite",
    "dynamodb": "reaper.aws.stores.dynamodb",
    "table": "reaper.azure.stores.tables",
}
EXTRA_BY_SCHEME = {"dynamodb": "aws", "table": "azure"}
EXPECTED_ADDRESS = "memory:, sqlite:///path, dynamodb://table or table://account/table"


def open_ledger(address: str | None, environ: Mapping[str, str], *, read_only: bool = False) -> Ledger:
    """The ledger at `address`, or the user's own if it is None. Raises SettingsError if the address can't be used.

    `read_only` is for an audit: opening creates, upgrades and writes nothing, and a missing file is an empty ledger.
    """
    scheme, colon, place = (address or default_address(environ)).strip().partition(":")
    if not colon or scheme not in MODULE_BY_SCHEME:
        raise SettingsError(f"REAPER_LEDGER={address!r}: expected {EXPECTED_ADDRESS}")
    try:
        module = import_module(MODULE_BY_SCHEME[scheme])
    except ImportError as error:
        extra = EXTRA_BY_SCHEME.get(scheme, "cli")
        raise SettingsError(f"REAPER_LEDGER={address}: needs an extra: {install_command(extra)} ({error})") from error
    place = place.removeprefix("//")
    store = module.open_in_memory() if scheme == "memory" else module.open_store(place, environ, read_only=read_only)
    return Ledger(store, deployment_id(environ))


def deployment_id(environ: Mapping[str, str]) -> str:
    """REAPER_DEPLOYMENT, or an empty text. Azure resource IDs are in lower case, because Azure ignores their case."""
    value = environ.get("REAPER_DEPLOYMENT", "").strip()
    if len(value) > MAX_DEPLOYMENT or not value.isprintable():
        raise SettingsError(f"REAPER_DEPLOYMENT={value[:80]!r}: expected one line of at most {MAX_DEPLOYMENT} characters")
    return value.lower() if value.startswith("/") else value


def require_existing(address: str) -> None:
    """Raises SettingsError if the address is that of a file that doesn't exist. A missing table shows with the first call."""
    scheme, _, place = address.strip().partition(":")
    if scheme == "sqlite":
        from reaper.ledger.sqlite import file_path

        path = file_path(place.removeprefix("//"))
        if not path.is_file():
            raise SettingsError(f"REAPER_LEDGER={address}: there is no file {path}, so no sweep uses it; check the path")


def ensure_format(ledger: Ledger, known: NamedRow | None = None) -> None:
    """Mark the ledger, whose format row may be `known`, with this format and its deployment, before the first write. Raises as below."""
    first = [known]

    def attempt() -> bool | None:
        row = require_known_format(ledger, first.pop() if first else None)
        deployment = {"deployment": ledger.deployment} if ledger.deployment else {}
        marked = {**row.values, "number": str(FORMAT), **deployment}
        return row.values == marked or ledger.write_row(FORMAT_ROW, marked, row.version) or None

    write_until_accepted(attempt, "the format of the ledger")


def require_right_clock(ledger: Ledger) -> None:
    """Raises CloudError if this machine's clock and that of the store, as of its last reply, are too far apart for any date to be relied on."""
    skew = ledger.store.clock_skew
    if abs(skew) > MAX_CLOCK_SKEW:
        apart = f"{format_duration(abs(skew))} {'ahead of' if skew > timedelta(0) else 'behind'} the ledger's"
        because = f"this machine's clock is {apart}, so this machine sends no notice and changes nothing; set its clock right"
        raise CloudError(Reason.REFUSED, "ledger:Read", because)


def require_known_format(ledger: Ledger, known: NamedRow | None = None) -> NamedRow:
    """The format row of a ledger that this version and this deployment can write to. Without REAPER_DEPLOYMENT it may be any deployment's.

    Raises SettingsError if it is another deployment's or another version's ledger, CloudError if its format can't be read.
    """
    row = known or ledger.read_row(FORMAT_ROW)
    number = row.values.get("number", str(FORMAT))
    if number != str(FORMAT):
        is_older = number.isdecimal() and int(number) < FORMAT
        raise SettingsError(
            f"the ledger has format {number}, but this version of ML Idle Reaper only knows format {FORMAT}; "
            f"{START_OVER if is_older else 'install a newer version'}"
        )
    owner = row.values.get("deployment", ledger.deployment)
    if ledger.deployment not in {"", owner}:
        raise SettingsError(
            f"the ledger belongs to the deployment {owner}, and this is {ledger.deployment}; set REAPER_LEDGER to this deployment's own ledger, "
            "or hand it over (docs/operations.md)"
        )
    return row


def default_address(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The address of the user's own ledger. Raises SettingsError if the environment has no home directory."""
    if platform == "win32":
        home, below = environ.get("LOCALAPPDATA", ""), ("ml-idle-reaper", "ledger.db")
        file: PurePath = PureWindowsPath(home, *below)
    elif Path(environ.get("XDG_STATE_HOME", "")).is_absolute():
        home, file = environ["XDG_STATE_HOME"], Path(environ["XDG_STATE_HOME"], "ml-idle-reaper", "ledger.db")
    else:
        home = environ.get("HOME", "")
        file = Path(home, ".local", "state", "ml-idle-reaper", "ledger.db")
    if not home:
        raise SettingsError(
            "REAPER_LEDGER is not set and there is no home directory; set it, for example to sqlite:///var/lib/reaper.db"
        )
    return f"sqlite://{file}"
