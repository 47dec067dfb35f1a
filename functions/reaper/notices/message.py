"""One message to an owner or to the admins, for every channel: a list of blocks with a rank each. It can contain nothing that would end a header line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reaper.errors import CloudError, Reason
from reaper.ledger.rows import Visit
from reaper.notices.blocks import Card

SENDER_NAME = "ML Idle Reaper"
ABOUT = "https://github.com/ml-idle-reaper/ml-idle-reaper/blob/main/docs/got-a-mail.md"
"""The page for owners who got a mail."""
MAX_SUBJECT = 150
MAX_SHORT_SUBJECT = 99
"""Characters of a subject that every channel accepts: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html"""
_LOCAL = re.compile(r"(?!-)[A-Za-z0-9_+'=-]+(?:\.[A-Za-z0-9_+'=-]+)*")
"""Of what RFC 5322 allows, the characters of people's addresses. A relay reads `%` and `!` as a route to another host, a program reads a
leading `-` as an option, and shells and paths give the others a meaning."""
_LINK_TARGET = r"(?:[a-z][a-z0-9+.-]{0,30}:|www\.|[/#^~])"
"""How the target of a link begins."""
_MARKUP = re.compile(
    r"(?<![\w.+'=-])(?P<address>[a-z0-9](?:[a-z0-9._+'=-]{0,62}[a-z0-9_+=-])?@(?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63}(?![\w-]))"
    rf"|\](?=[(:\[])|<(?=\S)|\[(?=\[?(?:https?:|mailto:|~))|\|(?=\s*{_LINK_TARGET})|\"(?=:{_LINK_TARGET})"
    r"|@(?=everyone\b|here\b|channel\b|all\b|team\b|room\b|\*|_\*)|(?<![A-Za-z0-9])@(?=\w)",
    re.IGNORECASE,
)
"""What begins a link under other words (`[x](…)`, `[x]: …`, `<…|x>`, HTML; `[x|…]` and `[~x]` in Jira, `"x":…` in Textile) or mentions
one person or a whole channel (`<!channel>`, `@here`, Zulip's `@**all**`). A mail address does neither; it is matched first, and kept.
"""
WORD_JOINER = "\u2060"
"""The word joiner: invisible, and separates what is before and after it."""
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]{2,63}")


class Audience(StrEnum):
    """The readers of a message."""

    OWNERS = "owners"
    ADMINS = "admins"


AttributeValue = str | float | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Subject, plain text and HTML, whole. `to` is an address; empty for admins whose addresses a channel knows.

    `attributes` are for filters and routing; `resource_ids` are the resources in it. `visit`: what its links open, to be stored first. `card`: the
    same for chats. `short_subject`: for a channel that would cut the subject. Raises ValueError for an address or a subject that no header may
    have, and for empty text.
    """

    to: str
    subject: str
    text: str
    html: str
    short_subject: str = ""
    audience: Audience = Audience.OWNERS
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    resource_ids: tuple[str, ...] = ()
    visit: Visit | None = None
    card: Card = field(default_factory=Card)

    def __post_init__(self) -> None:
        if self.to and not is_plain_address(self.to):
            raise ValueError(f"{self.to[:80]!r} is not a plain email address")
        if not self.subject.isprintable() or not 0 < len(self.subject) <= MAX_SUBJECT:
            raise ValueError(f"a subject is one printable line of 1 to {MAX_SUBJECT} characters")
        if not self.text.strip():
            raise ValueError("a message needs text")
        if not self.to and self.audience is Audience.OWNERS:
            raise ValueError("a message to an owner needs an address")


def is_plain_address(address: str) -> bool:
    """Whether `address` is one ASCII mailbox without quoting, comments, a display name or a route: letters, digits and `._+'=-`."""
    name, _, domain = address.rpartition("@")
    return len(address) <= 254 and len(name) <= 64 and bool(_LOCAL.fullmatch(name) and _DOMAIN.fullmatch(domain))


def is_deliverable(address: str, domains: Collection[str], fallback: str | None) -> bool:
    """Whether mail may go there: a plain address whose domain is listed, or the policy's own fallback."""
    if not is_plain_address(address):
        return False
    listed = {domain.lower().lstrip("@") for domain in domains}
    return address == fallback or address.rpartition("@")[2].lower() in listed


def recipient(message: Message, operation: str) -> str:
    """Its address. Raises CloudError if it has none."""
    if not message.to:
        raise CloudError(Reason.REFUSED, operation, "no recipient: set the channel's `to`, or owners.fallback in the policy")
    return message.to


def without_markup(text: str) -> str:
    """`text` for readers that interpret markup: an invisible word joiner breaks up what would be a masked link or a mention.

    Names, tags and reasons are other people's words. The reaper's own links stay: they show their address.
    """
    return _MARKUP.sub(lambda match: match[0] if match["address"] else match[0] + WORD_JOINER, text)
