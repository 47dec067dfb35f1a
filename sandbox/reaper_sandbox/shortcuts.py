"""What stories and tests ask for in one step, and the product in several."""

from __future__ import annotations

from datetime import datetime

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.savings.book import read_saved
from reaper.savings.totals import Saved, summarize
from reaper.sessions import CloudSession, list_accounts, open_account
from reaper.settings import Settings


def saved_since(ledger: Ledger, since: datetime, now: datetime, by: str = "kind") -> Saved:
    """What was saved since a time. Raises CloudError, and SettingsError for a grouping that doesn't exist."""
    return summarize(read_saved(ledger, since, now), since, now, by)


def sessions_of(settings: Settings, cloud: str) -> list[CloudSession]:
    """A session for each target of one cloud, allowed to act if the mode is. Raises the error of an account that can't be opened."""
    sessions: list[CloudSession] = []
    for account in list_accounts(settings, cloud):
        opened, rows = open_account(settings, account, may_act=settings.mode.acts)
        if rows:
            raise CloudError(Reason.REFUSED, "open", rows[0].error or "")
        sessions += opened
    return sessions
