"""Settings: environment variables with the prefix `REAPER_`, then what a flag or a hand-made call says on top."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from reaper.errors import SettingsError
from reaper.model import Mode
from reaper.policy import secret_grants

SETTING_DOCS = {
    "REAPER_MODE": "how far a run may go: audit (the default), notify, announce or enforce",
    "REAPER_POLICY": "a file, s3://bucket/key, ssm:/name, a blob's https URL, or the YAML itself; without it the built-in defaults hold",
    "REAPER_REGIONS": "AWS regions, comma-separated, or all; without it the session's own region",
    "REAPER_SUBSCRIPTIONS": "Azure subscription ids, comma-separated; without it every one the identity can read",
    "REAPER_LEDGER": "where the memory is kept: sqlite:///path, dynamodb://table or table://account/table, in an audit also memory:; functions "
    "need one above mode audit, the command line takes ml-idle-reaper/ledger.db in the user's state directory",
    "REAPER_ARM_ENDPOINT": "Azure Resource Manager of a sovereign cloud; the public one without it",
    "REAPER_METRICS_ENDPOINT": "Azure's batch metrics host, {region} in it stands for the region; the public one without it",
    "REAPER_MANIFESTS": "where what an act takes away is kept for undoing it: s3://bucket/prefix, a blob container's https URL, or a directory",
    "REAPER_ROLE": "the AWS role to sweep under; below mode enforce its session is narrowed to reading",
    "REAPER_REPORTS": "where the functions store full reports; the command line has --output: s3://bucket/prefix, or a blob container's https URL",
    "REAPER_TOPIC": "the SNS topic that gets the summary",
    "REAPER_EMAIL_ENDPOINT": "the Azure Communication Services address that sends the summary",
    "REAPER_EMAIL_SENDER": "the address the summary comes from, of a domain connected to that service",
    "REAPER_EMAIL_TO": "who gets the summary by e-mail, comma-separated",
    "REAPER_SCHEDULE": "when the function app sweeps, in UTC: second minute hour day month weekday; read by the Functions host only",
    "REAPER_DEPLOYMENT": "which deployment snooze links are for: the stack's ARN or the function app's resource id; its page takes no other's",
    "REAPER_SNOOZE_URL": "the public address that snooze links lead to, without /keep; without it messages offer the tag alone",
    "REAPER_SNOOZE_KEYS": "the secrets that sign snooze links: secretsmanager:name, keyvault:address or env:NAME",
    "REAPER_SECRETS": "the secrets that a policy may name, comma-separated: names, ARNs or Key Vault addresses, with * for any letters; "
    "without it a policy may name variables only, which begin with REAPER_SECRET_",
    "REAPER_QUIET": "true: no summary when nothing is idle, unknown or missing",
}
MODES = tuple(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """Who sends the summary, and to whom."""

    endpoint: str
    sender: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run's settings, parsed. Empty tuples mean no restriction."""

    mode: Mode = Mode.AUDIT
    cloud: str = "all"
    policy: str | None = None
    regions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    ledger: str | None = None
    manifests: str | None = None
    role: str | None = None
    reports: str | None = None
    topic: str | None = None
    email: Email | None = None
    quiet: bool = False


def from_env(environ: Mapping[str, str]) -> Settings:
    """The settings in `environ`. Raises SettingsError for a value that cannot be used and for a name that looks misspelt."""
    for name in environ:
        strange = name.startswith("REAPER_") and not name.startswith(secret_grants.SECRET_PREFIX) and name not in SETTING_DOCS
        if strange and (near := get_close_matches(name, SETTING_DOCS, n=1, cutoff=0.85)):
            raise SettingsError(f"{name} is not a setting, did you mean {near[0]}?")
    get = {name: value.strip() for name, value in environ.items() if name in SETTING_DOCS and value.strip()}.get
    return Settings(
        mode=parse_mode(get("REAPER_MODE", "audit"), "REAPER_MODE"),
        policy=get("REAPER_POLICY"),
        regions=split_words(get("REAPER_REGIONS", "")),
        subscriptions=split_words(get("REAPER_SUBSCRIPTIONS", "")),
        ledger=get("REAPER_LEDGER"),
        manifests=get("REAPER_MANIFESTS"),
        role=_parse_role(get("REAPER_ROLE")),
        reports=get("REAPER_REPORTS"),
        topic=_parse_topic(get("REAPER_TOPIC")),
        email=_parse_email(get("REAPER_EMAIL_ENDPOINT"), get("REAPER_EMAIL_SENDER"), split_words(get("REAPER_EMAIL_TO", ""))),
        quiet=_parse_flag(get("REAPER_QUIET", "false"), "REAPER_QUIET"),
    )


def narrow_settings(settings: Settings, asked: Mapping[str, Any], kinds: Collection[str]) -> Settings:
    """`settings` under a hand-made call, whose keys are the CLI's options. Raises SettingsError for what would raise the mode or add a place."""
    singular = {"kind": "kinds", "region": "regions", "account": "accounts", "subscription": "subscriptions"}
    given: dict[str, Any] = {}
    for key, value in asked.items():
        name = singular.get(key, key)
        if name not in CALL_OPTIONS:
            near = get_close_matches(key, CALL_OPTIONS, n=1, cutoff=0.5)
            raise SettingsError(
                f"{key!r} is not an option of a sweep"
                + (f", did you mean {near[0]!r}?" if near else f"; valid: {', '.join(CALL_OPTIONS)}")
            )
        if value not in ([], None):
            given[name] = _parse_option(name, value)
    if MODES.index(given.get("mode", settings.mode)) > MODES.index(settings.mode):
        raise SettingsError(
            f"mode {given['mode'].value!r} is more than this deployment allows ({settings.mode.value}): a call can only lower it"
        )
    for name in SCOPE_NAMES:
        _require_inside(name, given.get(name, ()), getattr(settings, name))
    return replace(settings, **{**given, "kinds": expand_kinds(given.get("kinds", settings.kinds), kinds)})


def _require_inside(name: str, asked: Collection[str], ours: Collection[str]) -> None:
    """Raises SettingsError for a place outside `ours`, in any case; none or `all` of ours is no restriction."""
    known = {place.lower() for place in ours}
    strange = [place for place in asked if place.lower() not in known]
    if strange and known and "all" not in known:
        raise SettingsError(
            f"{name}: {strange[0]!r} is not among those that this deployment sweeps ({', '.join(ours)}): a call can only narrow them"
        )


SCOPE_NAMES = ("regions", "accounts", "subscriptions")
CALL_OPTIONS = ("mode", "cloud", "kinds", "regions", "accounts", "subscriptions")


def require_durable_stores(settings: Settings) -> Settings:
    """The same, for a function whose memory ends with the run. Raises SettingsError where notices would be forgotten and sent again."""
    if settings.mode.writes and not (settings.ledger or "").startswith(("dynamodb://", "table://")):
        raise SettingsError(
            f"mode {settings.mode} needs a ledger that lasts: set REAPER_LEDGER to dynamodb://table or table://account/table"
        )
    if settings.mode.acts and not (settings.manifests or "").startswith(("s3://", "https://")):
        raise SettingsError(
            f"mode {settings.mode} needs a place that lasts for what undoing takes: set REAPER_MANIFESTS to s3://bucket/prefix or a blob container"
        )
    return settings


def parse_mode(text: str, name: str) -> Mode:
    """The mode of that name. Raises SettingsError for any other text."""
    if text not in {m.value for m in Mode}:
        raise SettingsError(f"{name}={text!r} is not a mode: expected {', '.join(MODES[:-1])} or {MODES[-1]}")
    return Mode(text)


def split_words(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated text, without blanks and repeats."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def expand_kinds(asked: Collection[str], kinds: Collection[str]) -> tuple[str, ...]:
    """The kinds that `asked` names, globs allowed; none asked means all. Raises SettingsError for a name that fits none."""
    for name in asked:
        if not any(fnmatchcase(kind, name) for kind in kinds):
            near = get_close_matches(name, kinds, n=1, cutoff=0.4)
            raise SettingsError(
                f"{name!r} is no kind we know" + (f", did you mean {near[0]}?" if near else f"; there are {', '.join(kinds)}")
            )
    return tuple(kind for kind in kinds if not asked or any(fnmatchcase(kind, name) for name in asked))


def require_kinds_of_cloud(cloud: str, asked: Collection[str], kinds: Collection[str]) -> None:
    """Raises SettingsError where one of the kinds that are asked for is of another cloud; `kinds` are those of this one."""
    for name in asked:
        if not any(fnmatchcase(kind, name) for kind in kinds):
            raise SettingsError(f"no kind of {cloud} fits {name!r}; there are {', '.join(kinds)}")


def require_kept_memory(settings: Settings) -> Settings:
    """The same, for the command line. Raises SettingsError where owners would be told anew on every run and nothing could be undone."""
    if settings.mode.writes and (settings.ledger or "").startswith("memory:"):
        raise SettingsError(
            f"REAPER_LEDGER={settings.ledger} forgets all with this run, and mode {settings.mode} would tell the owners again on every "
            "run: leave it unset for a ledger of your own, or set it to sqlite:///path, dynamodb://table or table://account/table"
        )
    return settings


def parse_cloud(text: str) -> str:
    """`aws`, `azure` or `all`. Raises SettingsError for anything else."""
    if text not in {"aws", "azure", "all"}:
        raise SettingsError(f"cloud {text!r} is not one we know: expected aws, azure or all")
    return text


def _parse_option(name: str, value: Any) -> Any:
    if name in {"mode", "cloud"}:
        if not isinstance(value, str):
            raise SettingsError(f"{name}: {value!r} is not a text")
        return parse_mode(value, name) if name == "mode" else parse_cloud(value)
    if not isinstance(value, str | list) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f"{name}: {value!r} is not a list of texts")
    found = split_words(value if isinstance(value, str) else ",".join(value))
    if not found:
        raise SettingsError(f"{name}: {value!r} names nothing; leave it out to ask for all that this deployment sweeps")
    return found


def _parse_email(endpoint: str | None, sender: str | None, to: tuple[str, ...]) -> Email | None:
    if endpoint and sender and to:
        return Email(endpoint=endpoint, sender=sender, to=to)
    if endpoint or sender or to:
        raise SettingsError("REAPER_EMAIL_ENDPOINT, REAPER_EMAIL_SENDER and REAPER_EMAIL_TO go together: set all three or none")
    return None


def _parse_role(arn: str | None) -> str | None:
    if arn is not None and not re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", arn):
        raise SettingsError(f"REAPER_ROLE={arn!r} is not an IAM role: expected arn:aws:iam::ACCOUNT:role/NAME")
    return arn


def _parse_topic(arn: str | None) -> str | None:
    if arn is not None and not re.fullmatch(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]+", arn):
        raise SettingsError(f"REAPER_TOPIC={arn!r} is not an SNS topic: expected arn:aws:sns:REGION:ACCOUNT:NAME")
    return arn


def _parse_flag(text: str, name: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0", "yes", "no"}:
        raise SettingsError(f"{name}={text!r} is neither true nor false")
    return text.lower() in {"true", "1", "yes"}
