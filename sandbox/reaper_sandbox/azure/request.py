"""A request as the sandbox sees it, and the reply it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

HARMLESS = re.compile(r"microsoft\.communication/.*|.*/list\w*/action", re.I)
"""POSTs that change no resource: mail, key and node lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. `action` is the RBAC action it needs and `scope` where; both are empty for a path that nothing answers.

    `names` are the parts of the path (sub, group, workspace, …). Header names are lower-cased. `body` is the parsed JSON, None without one.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    action: str = ""
    scope: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def api_version(self) -> str | None:
        """The `api-version` that was asked for."""
        return self.query.get("api-version")

    @property
    def mutation(self) -> bool:
        """Whether it changes a resource. An unknown POST counts as a change; Resource Graph, metrics and mail do not."""
        if self.method in ("PUT", "PATCH", "DELETE"):
            return True
        if self.method != "POST":
            return False
        return not self.action or (self.action.lower().endswith("/action") and not HARMLESS.fullmatch(self.action))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back: `body` is JSON data, or the bytes themselves, or None for an empty body."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Raised by whatever answers a request to send `reply` instead."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.status} {reply.body}")
        self.reply = reply
