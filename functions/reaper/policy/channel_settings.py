"""The policy's channels: where messages go, their recipients, and the address of the secret. Pure.

Never put a secret in the policy. Anything that looks like one is an error that says how to fix it and doesn't repeat the value.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self, get_args
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from reaper.notices.message import Audience
from reaper.policy import secret_grants
from reaper.policy.values import ONE_OR_MORE_STRINGS, as_list, require_plain_address
from reaper.urls import is_loopback

SECRET_PATTERN = rf"^(env:{secret_grants.SECRET_PREFIX}[A-Z0-9_]+|secretsmanager:\S+|keyvault:https://\S+)$"
ANY_VARIABLE = r"env:[A-Za-z_][A-Za-z0-9_]*"
SECRET_ADVICE = (
    f"put it in a variable or a vault and write `secret: env:{secret_grants.SECRET_PREFIX}NAME`, `secretsmanager:name` or "
    "`keyvault:https://vault.../secrets/name`"
)
SECRET_KEY_NAMES = re.compile(
    r"pass(word|wd)?|.*token|(api|secret|access|routing)?_?key|credentials?|connection_?string|auth|sig|code", re.IGNORECASE
)
HARMLESS_SCHEMES = {"json", "jsons", "xml", "xmls", "form", "forms"}
"""The Apprise schemes whose address contains no token."""
SECRET_HOSTS = re.compile(r"hooks\.slack\.com|discord(app)?\.com|.*\.webhook\.office\.com|chat\.googleapis\.com", re.IGNORECASE)


Address = Annotated[str, BeforeValidator(require_plain_address)]
Addresses = Annotated[list[Address], BeforeValidator(as_list), ONE_OR_MORE_STRINGS]
_READER: dict[str, Any] = {"enum": [reader.value for reader in Audience]}
Readers = Annotated[
    list[Audience],
    BeforeValidator(as_list),
    Field(min_length=1, alias="for", description="owners, admins or both"),
    WithJsonSchema({"anyOf": [_READER, {"type": "array", "items": _READER, "minItems": 1}]}),
]
SecretRef = Annotated[str, Field(pattern=SECRET_PATTERN)]
SECRET_PLACES = f"env:{secret_grants.SECRET_PREFIX}NAME, secretsmanager:name or keyvault:https://…"


class _Channel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
    is_mail: ClassVar[bool] = False
    """Whether it goes to each reader's own address: then only what such channels accept counts. All others are rooms."""

    readers: Readers = [Audience.OWNERS, Audience.ADMINS]
    name: str = Field("", max_length=60, description="the channel's name in the report. Default: its type")

    @model_validator(mode="before")
    @classmethod
    def _forbid_secrets(cls, data: Any) -> Any:
        for key, value in data.items() if isinstance(data, dict) else ():
            if problem := _inline_secret_problem(str(key), value):
                raise ValueError(f"{key}: {problem}")
        return data


class _Mail(_Channel):
    is_mail = True

    sender: Address = Field(alias="from", description="the sender's address")
    to: Addresses = Field([], description="recipients of mail for admins. Default: owners.fallback")


class Smtp(_Mail):
    """A mail server. `starttls` is enforced; `tls` is for port 465; use `none` only on this machine."""

    type: Literal["smtp"] = Field(description="a mail server")
    host: str = Field(min_length=1, pattern=r"^[A-Za-z0-9.:_-]+$", description="the server's name", examples=["smtp.example.com"])
    port: int = Field(587, ge=1, le=65535, description="587 for starttls, 465 for tls")
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="how the connection is encrypted; none only on this machine"
    )
    user: str | None = Field(None, description="the login, if the server needs one; set secret, too")
    secret: SecretRef | None = Field(None, description=f"the password's address: {SECRET_PLACES}")

    @model_validator(mode="after")
    def _require_whole_login(self) -> Self:
        if (self.user is None) != (self.secret is None):
            raise ValueError("user and secret go together; set both, or neither if the server needs no login")
        if self.user and self.tls == "none" and not is_loopback(self.host):
            raise ValueError("tls: none would send the password unencrypted; use starttls or tls")
        return self


class Ses(_Mail):
    """Amazon SES, version 2 of its API; `from` must be an identity verified there."""

    type: Literal["ses"] = Field(description="Amazon SES")
    region: str | None = Field(None, description="the region of SES. Default: the session's region")
    configuration_set: str | None = Field(None, description="the SES configuration set to send with")


class Acs(_Mail):
    """Azure Communication Services email. If no secret (an access key) is set, the app's own identity is used."""

    type: Literal["acs"] = Field(description="Azure Communication Services email")
    endpoint: str = Field(
        pattern=r"^(https://[A-Za-z0-9.:-]+|http://(localhost|127\.0\.0\.1)(:\d+)?)/?$",
        description="the communication service's endpoint",
        examples=["https://reaper.europe.communication.azure.com"],
    )
    secret: SecretRef | None = Field(
        None, description=f"an access key's address: {SECRET_PLACES}. Default: the app's own identity"
    )


class Sns(_Channel):
    """An SNS topic; owners subscribe with a filter policy on the attribute `owner`."""

    type: Literal["sns"] = Field(description="an SNS topic")
    topic: str = Field(
        pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$",
        description="the topic's ARN",
        examples=["arn:aws:sns:us-east-1:123456789012:reaper"],
    )
    readers: Readers = [Audience.ADMINS]


class Webhook(_Channel):
    """A POST of JSON to your own address, signed with the secret."""

    type: Literal["webhook"] = Field(description="a signed POST of JSON")
    url: str = Field(
        pattern=r"^(https://|http://(localhost|127\.0\.0\.1)[:/])\S+$",
        description="the address that gets the JSON",
        examples=["https://hooks.example.com/reaper"],
    )
    secret: SecretRef = Field(description=f"the signing key's address: {SECRET_PLACES}")
    readers: Readers = [Audience.ADMINS]


class Room(_Channel):
    """A room in Slack by an incoming webhook, or a channel in Teams by a workflow that posts the card it gets."""

    type: Literal["slack", "teams"] = Field(description="a room in Slack or Microsoft Teams")
    secret: SecretRef = Field(description=f"where the webhook's URL, which is the secret, is stored: {SECRET_PLACES}")
    host: str | None = Field(
        None, pattern=r"^[A-Za-z0-9.-]+$", description="the URL's host, if it is your own gateway", examples=["chat.example.com"]
    )
    readers: Readers = [Audience.ADMINS]


class Apprise(_Channel):
    """PagerDuty, Discord and a hundred more by an Apprise address, which is nearly always a secret."""

    type: Literal["apprise"] = Field(description="other chats and pagers")
    secret: SecretRef | None = Field(None, description=f"where the Apprise address is stored: {SECRET_PLACES}")
    url: str | None = Field(None, description="only for json://, xml:// and form:// addresses without a password")
    readers: Readers = [Audience.ADMINS]

    @model_validator(mode="after")
    def _require_one_address(self) -> Self:
        if (self.url is None) == (self.secret is None):
            raise ValueError("set secret to where the Apprise address is stored, or url for an address without a secret")
        if self.url and urlsplit(self.url).scheme not in HARMLESS_SCHEMES:
            raise ValueError(
                f"url: expected one of {', '.join(sorted(HARMLESS_SCHEMES))}; any other Apprise address is a secret, so {SECRET_ADVICE}"
            )
        return self


class Folder(_Channel):
    """A directory for mails as .eml files, to see what would be sent."""

    is_mail = True

    type: Literal["folder"] = Field(description="a directory, to see what would be sent")
    path: str = Field(min_length=1, description="the directory", examples=["mail"])


Channel = Annotated[Smtp | Ses | Acs | Sns | Webhook | Room | Apprise | Folder, Field(discriminator="type")]
CHANNEL_MODELS: dict[str, type[_Channel]] = {
    name: model for model in get_args(get_args(Channel)[0]) for name in get_args(model.model_fields["type"].annotation)
}
CHATS = {
    "discord": ("discord", "discord://webhook-id/webhook-token"),
    "telegram": ("telegram", "tgram://bot-token/chat-id"),
    "pagerduty": ("pagerduty", "pagerduty://integration-key@api-key"),
    "opsgenie": ("opsgenie", "opsgenie://api-key"),
    "googlechat": ("googlechat", "gchat://workspace/key/token"),
    "mattermost": ("mattermost", "mmosts://host/token"),
    "webex": ("webex", "wxteams://token"),
}
"""Chats that people write as a type: the chat's name, and the form of its address in Apprise."""
MAILS = {"email", "mail", "e-mail", "sendgrid", "mailgun", "gmail", "outlook"}


def channel_advice(channel_type: str) -> str:
    """What to write instead of an unknown type whose meaning is clear; empty for any other."""
    name = channel_type.lower()
    if name in MAILS:
        line = "{type: smtp, host: smtp.example.com, from: reaper@example.com}"
        return f"; for mail write `- {line}`, or type: ses (Amazon) or acs (Azure)"
    chat_name = re.sub("[ _-]|^microsoft|^ms(?=[ _-]?teams)", "", name)
    if chat_name in {"slack", "teams"}:
        where = f"env:{secret_grants.SECRET_PREFIX}{chat_name.upper()}"
        return f"; write `- {{type: {chat_name}, secret: {where}}}` and put the webhook's URL in that variable"
    if chat := CHATS.get(chat_name):
        where = f"{secret_grants.SECRET_PREFIX}{chat[0].upper()}"
        line = f"{{type: apprise, name: {chat[0]}, secret: env:{where}}}"
        put = f"put its address, {chat[1]}, in the variable {where} and write `- {line}`"
        return f"; chats use Apprise, so {put} (it needs the extra chat, which deployments lack; use type: webhook there)"
    return ""


def _secret_problem(value: object) -> str | None:
    """The problem with a `secret`, or None. Names a variable, which is no secret."""
    if value is None or (isinstance(value, str) and re.fullmatch(SECRET_PATTERN, value)):
        return None
    if isinstance(value, str) and re.fullmatch(ANY_VARIABLE, value):
        return secret_grants.forbidden_because(value, {})
    return f"not a secret's address; never put a secret in the policy: {SECRET_ADVICE}"


def _inline_secret_problem(key: str, value: object) -> str | None:
    """The problem with a value that looks like a secret, or None. Never repeats the value."""
    if key == "secret":
        return _secret_problem(value)
    if SECRET_KEY_NAMES.fullmatch(key):
        return f"never put a secret in the policy: {SECRET_ADVICE}"
    if not isinstance(value, str) or ("//" not in value and "@" not in value.partition(":")[2]):
        return None
    try:
        parts = urlsplit(value if "//" in value else f"//{value}")
        has_secret = bool(parts.password) or any(SECRET_KEY_NAMES.fullmatch(name) for name, _ in parse_qsl(parts.query))
    except ValueError:
        has_secret = True
    if has_secret or (key == "url" and parts.username):
        return f"this address contains a password or token, which must not be in the policy: {SECRET_ADVICE}"
    if key == "url" and (
        parts.scheme not in HARMLESS_SCHEMES | {"http", "https"} or SECRET_HOSTS.fullmatch(parts.hostname or "")
    ):
        return (
            f"an address like this is itself a secret; use type: slack or teams, or apprise for other chats, and {SECRET_ADVICE}"
        )
    return None
