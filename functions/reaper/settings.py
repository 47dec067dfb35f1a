"""Settings: environment variables with the prefix `REAPER_`, changed by the options of a command or a manual call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from reaper import accounts as account_scope
from reaper.accounts import AccountScope
from reaper.errors import SettingsError
from reaper.model import Mode
from reaper.policy import secret_grants

SETTING_DOCS = {
    "REAPER_MODE": "run mode: audit, notify, announce or enforce. Default: audit",
    "REAPER_POLICY": "policy: a file, s3://bucket/key, ssm:/name, a blob's https URL, or the YAML itself. Default: the built-in policy",
    "REAPER_REGIONS": "AWS regions, comma-separated, or all. Default: the session's region",
    "REAPER_ACCOUNTS": "AWS accounts: self, account IDs, organization, or IDs of organizational units (ou-...), comma-separated. Default: self",
    "REAPER_EXCLUDE_ACCOUNTS": "AWS account IDs never to sweep, comma-separated",
    "REAPER_TARGET_ROLE": "name of the role to assume in other AWS accounts, with its path if it has one. Default: ml-idle-reaper-target",
    "REAPER_EXTERNAL_ID": "external ID that the trust policy of this role asks for",
    "REAPER_SUBSCRIPTIONS": "Azure subscription IDs, comma-separated. Default: every subscription that the identity can read",
    "REAPER_MANAGEMENT_GROUP": "ID of the Azure management group whose subscriptions are swept",
    "REAPER_LEDGER": "ledger: sqlite:///path, dynamodb://table or table://account/table, in audit mode also memory:. Functions need it above audit "
    "mode. Default for the command line: ml-idle-reaper/ledger.db in the user's state directory",
    "REAPER_ARM_ENDPOINT": "address of a sovereign cloud's Azure Resource Manager. Default: the public cloud's",
    "REAPER_METRICS_ENDPOINT": "address of Azure's batch metrics, with {region} for the region. Default: the public cloud's",
    "REAPER_MANIFESTS": "store of restore manifests, which undo needs: s3://bucket/prefix, a blob container's https URL, or a directory",
    "REAPER_ROLE": "AWS role to sweep the own account with; below enforce mode its session can only read",
    "REAPER_REPORTS": "store of the functions' full reports: s3://bucket/prefix, or a blob container's https URL. The command line has --output instead",
    "REAPER_RUNS": "store of what the steps of a workflow hand over: s3://bucket/prefix, or a blob container's https URL",
    "REAPER_WORKFLOW": "ARN of the state machine that sweeps several AWS accounts. The sweep's function starts it instead of sweeping itself, and the first phase sweeps only for its executions",
    "REAPER_TOPIC": "SNS topic for the summary",
    "REAPER_EMAIL_ENDPOINT": "Azure Communication Services endpoint that sends the summary",
    "REAPER_EMAIL_SENDER": "sender of the summary, in a domain connected to that service",
    "REAPER_EMAIL_TO": "recipients of the summary, comma-separated",
    "REAPER_SCHEDULE": "schedule of the function app, in UTC: second minute hour day month weekday. Only the Functions host reads it",
    "REAPER_DEPLOYMENT": "deployment whose snooze links are accepted, and to which the ledger belongs: the stack's ARN or the function app's resource ID",
    "REAPER_SNOOZE_URL": "public address of the snooze page, without /keep. If unset, notices offer only the tag",
    "REAPER_SNOOZE_KEYS": "keys that sign snooze links: secretsmanager:name, keyvault:address or env:NAME",
    "REAPER_SECRETS": "secrets that a policy may name, comma-separated: names, ARNs or Key Vault addresses, with * for any letters. "
    "If unset, a policy may only name variables that begin with REAPER_SECRET_",
    "REAPER_QUIET": "true: no summary if nothing is idle, unknown or missing",
}
MODES = tuple(Mode)
ARNS = {
    "REAPER_ROLE": (r"iam::\d{12}:role/[\w+=,.@/-]+", "an IAM role; use arn:aws:iam::ACCOUNT:role/NAME"),
    "REAPER_TOPIC": (r"sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]+", "an SNS topic; use arn:aws:sns:REGION:ACCOUNT:NAME"),
}
SCOPE_FIELDS = tuple(each.name for each in fields(AccountScope))


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """Sender and recipients of the summary."""

    endpoint: str
    sender: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run's settings, parsed. Empty tuples mean no restriction, but no `accounts`: only the credentials' own (`scope.accounts`).

    `role_name` is assumed in other accounts, `role` only in the own one.
    """

    mode: Mode = Mode.AUDIT
    cloud: str = "all"
    policy: str | None = None
    regions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    organization: bool = False
    ous: tuple[str, ...] = ()
    only_own_account: bool = False
    exclude_accounts: tuple[str, ...] = ()
    role_name: str = account_scope.TARGET_ROLE
    external_id: str | None = field(default=None, repr=False)
    subscriptions: tuple[str, ...] = ()
    management_group: str | None = None
    kinds: tuple[str, ...] = ()
    ledger: str | None = None
    manifests: str | None = None
    role: str | None = None
    reports: str | None = None
    runs: str | None = None
    workflow: str | None = None
    topic: str | None = None
    email: Email | None = None
    quiet: bool = False

    @property
    def account_scope(self) -> AccountScope:
        """The AWS accounts to sweep, before any is excluded."""
        return AccountScope(**{name: getattr(self, name) for name in SCOPE_FIELDS})


def from_env(environ: Mapping[str, str]) -> Settings:
    """The settings in `environ`. Raises SettingsError for an invalid value and for a name that looks misspelled."""
    for name in environ:
        is_ours = name.startswith("REAPER_") and not name.startswith(secret_grants.SECRET_PREFIX)
        if is_ours and name not in SETTING_DOCS and (near := get_close_matches(name, SETTING_DOCS, n=1, cutoff=0.85)):
            raise SettingsError(f"unknown setting {name}; did you mean {near[0]}?")
    get = {name: value.strip() for name, value in environ.items() if name in SETTING_DOCS and value.strip()}.get
    return Settings(
        mode=parse_mode(get("REAPER_MODE", "audit"), "REAPER_MODE"),
        policy=get("REAPER_POLICY"),
        regions=split_words(get("REAPER_REGIONS", "")),
        **asdict(account_scope.parse_accounts("REAPER_ACCOUNTS", split_words(get("REAPER_ACCOUNTS", "")))),
        exclude_accounts=account_scope.account_ids("REAPER_EXCLUDE_ACCOUNTS", split_words(get("REAPER_EXCLUDE_ACCOUNTS", ""))),
        role_name=account_scope.role_name("REAPER_TARGET_ROLE", get("REAPER_TARGET_ROLE", account_scope.TARGET_ROLE)),
        external_id=parsed(account_scope.external_id, "REAPER_EXTERNAL_ID", get("REAPER_EXTERNAL_ID")),
        subscriptions=account_scope.subscription_ids("REAPER_SUBSCRIPTIONS", split_words(get("REAPER_SUBSCRIPTIONS", ""))),
        management_group=parsed(account_scope.management_group_id, "REAPER_MANAGEMENT_GROUP", get("REAPER_MANAGEMENT_GROUP")),
        ledger=get("REAPER_LEDGER"),
        manifests=get("REAPER_MANIFESTS"),
        role=_parse_arn("REAPER_ROLE", get("REAPER_ROLE")),
        reports=get("REAPER_REPORTS"),
        runs=get("REAPER_RUNS"),
        workflow=get("REAPER_WORKFLOW"),
        topic=_parse_arn("REAPER_TOPIC", get("REAPER_TOPIC")),
        email=_parse_email(get("REAPER_EMAIL_ENDPOINT"), get("REAPER_EMAIL_SENDER"), split_words(get("REAPER_EMAIL_TO", ""))),
        quiet=_parse_flag(get("REAPER_QUIET", "false"), "REAPER_QUIET"),
    )


def narrow_settings(settings: Settings, call: Mapping[str, Any], kinds: Collection[str]) -> Settings:
    """`settings`, narrowed by a manual call whose keys are the CLI's options.

    Raises SettingsError for a call that would raise the mode or add a place.
    """
    options: dict[str, Any] = {}
    for key, value in call.items():
        name = _option_name(key)
        if value not in ([], None):
            options[name] = _parse_option(name, value)
    if MODES.index(options.get("mode", settings.mode)) > MODES.index(settings.mode):
        raise SettingsError(
            f"mode {options['mode'].value!r} exceeds this deployment's mode ({settings.mode.value}); a call can only lower the mode"
        )
    for name in ("regions", "subscriptions"):
        _require_inside(name, options.get(name, ()), getattr(settings, name))
    units = account_scope.unit_ids("ous", options.get("ous", ()))
    whole = [account_scope.ORGANIZATION] * options.get("organization", False)
    asked = account_scope.parse_accounts("accounts", [*options.get("accounts", ()), *units, *whole])
    accounts = account_scope.narrow_accounts(settings.account_scope, asked)
    options |= {
        **asdict(accounts),
        "exclude_accounts": (
            *settings.exclude_accounts,
            *account_scope.account_ids("exclude_accounts", options.get("exclude_accounts", ())),
        ),
        "subscriptions": account_scope.subscription_ids("subscriptions", options.get("subscriptions", settings.subscriptions)),
        "kinds": expand_kinds(options.get("kinds", settings.kinds), kinds),
    }
    return replace(settings, **options)


def _option_name(key: str) -> str:
    """The option for a key of a call, singular or plural. Raises SettingsError for an unknown key."""
    name = f"{key}s" if f"{key}s" in CALL_OPTIONS else key
    if name not in CALL_OPTIONS:
        near = get_close_matches(key, CALL_OPTIONS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(CALL_OPTIONS)}"
        raise SettingsError(f"unknown option {key!r}; {hint}")
    return name


def _require_inside(name: str, requested: Collection[str], configured: Collection[str]) -> None:
    """Raises SettingsError for a place outside the configured ones, whatever its case. None configured, or `all`, is no restriction."""
    known = {place.lower() for place in configured}
    outside = [place for place in requested if place.lower() not in known]
    if outside and known and "all" not in known:
        raise SettingsError(
            f"{name}: this deployment doesn't sweep {outside[0]!r}, only {', '.join(configured)}; a call can only narrow them"
        )


CALL_OPTIONS = ("mode", "cloud", "kinds", "regions", "accounts", "organization", "ous", "exclude_accounts", "subscriptions")


def require_durable_stores(settings: Settings) -> Settings:
    """The settings of a function, which keeps no files. Raises SettingsError if notices would be forgotten and sent again."""
    if settings.mode.writes and not (settings.ledger or "").startswith(("dynamodb://", "table://")):
        raise SettingsError(
            f"mode {settings.mode} needs a durable ledger; set REAPER_LEDGER to dynamodb://table or table://account/table"
        )
    if settings.mode.acts and not (settings.manifests or "").startswith(("s3://", "https://")):
        raise SettingsError(
            f"mode {settings.mode} needs a durable store of restore manifests; set REAPER_MANIFESTS to s3://bucket/prefix or a blob container"
        )
    return settings


def parse_mode(text: str, name: str) -> Mode:
    """The mode of that name. Raises SettingsError if there is none."""
    if text not in {m.value for m in Mode}:
        raise SettingsError(f"{name}={text!r}: unknown mode; use {', '.join(MODES[:-1])} or {MODES[-1]}")
    return Mode(text)


def split_words(text: str) -> tuple[str, ...]:
    """The words of a comma-separated text, without blanks and repeats."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def expand_kinds(globs: Collection[str], kinds: Collection[str]) -> tuple[str, ...]:
    """The kinds that `globs` name; no glob means all. Raises SettingsError for a glob that fits none."""
    for glob in globs:
        if not any(fnmatchcase(kind, glob) for kind in kinds):
            near = get_close_matches(glob, kinds, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"valid: {', '.join(kinds)}"
            raise SettingsError(f"unknown kind {glob!r}; {hint}")
    return tuple(kind for kind in kinds if not globs or any(fnmatchcase(kind, glob) for glob in globs))


def require_kinds_of_cloud(cloud: str, globs: Collection[str], kinds: Collection[str]) -> None:
    """Raises SettingsError if a glob fits only kinds of another cloud; `kinds` are those of this one."""
    for glob in globs:
        if not any(fnmatchcase(kind, glob) for kind in kinds):
            raise SettingsError(f"no kind in cloud {cloud} fits {glob!r}; valid: {', '.join(kinds)}")


def require_kept_memory(settings: Settings) -> Settings:
    """The settings of a command. Raises SettingsError if every run would notify the owners again and nothing could be undone."""
    if settings.mode.writes and (settings.ledger or "").startswith("memory:"):
        raise SettingsError(
            f"REAPER_LEDGER={settings.ledger} lasts for one run only, so mode {settings.mode} would notify the owners again on every run; "
            "unset it to use a ledger of your own, or set it to sqlite:///path, dynamodb://table or table://account/table"
        )
    return settings


def _parse_option(name: str, value: Any) -> Any:
    if name in {"mode", "cloud"}:
        if not isinstance(value, str):
            raise SettingsError(f"{name}: {value!r} is not a string")
        if name == "cloud" and value not in {"aws", "azure", "all"}:
            raise SettingsError(f"unknown cloud {value!r}; use aws, azure or all")
        return parse_mode(value, name) if name == "mode" else value
    if name == "organization":
        if not isinstance(value, bool):
            raise SettingsError(f"{name}: {value!r} is not true or false")
        return value
    if not isinstance(value, str | list) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f"{name}: {value!r} is not a list of strings")
    words = split_words(value if isinstance(value, str) else ",".join(value))
    if not words:
        raise SettingsError(f"{name}: {value!r} is empty; leave it out to include all that this deployment sweeps")
    return words


def _parse_email(endpoint: str | None, sender: str | None, to: tuple[str, ...]) -> Email | None:
    if endpoint and sender and to:
        return Email(endpoint=endpoint, sender=sender, to=to)
    if endpoint or sender or to:
        raise SettingsError("REAPER_EMAIL_ENDPOINT, REAPER_EMAIL_SENDER and REAPER_EMAIL_TO go together; set all three or none")
    return None


def parsed(parse: Callable[[str, str], str], key: str, text: str | None) -> str | None:
    """The parsed text; None if the setting isn't there."""
    return None if text is None else parse(key, text)


def _parse_arn(name: str, arn: str | None) -> str | None:
    pattern, expected = ARNS[name]
    if arn is not None and not re.fullmatch(rf"arn:aws[a-z-]*:{pattern}", arn):
        raise SettingsError(f"{name}={arn!r} is not {expected}")
    return arn


def _parse_flag(text: str, name: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0", "yes", "no"}:
        raise SettingsError(f"{name}={text!r}: use true or false")
    return text.lower() in {"true", "1", "yes"}
