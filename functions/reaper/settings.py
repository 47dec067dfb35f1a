"""Settings: environment variables with the prefix `REAPER_`, changed by the options of a command or a manual call.

Account and unit IDs: https://docs.aws.amazon.com/organizations/latest/APIReference/API_OrganizationalUnit.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from reaper.errors import SettingsError
from reaper.model import Mode
from reaper.policy import secret_grants
from reaper.text import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationInfo
    from pydantic_core import CoreSchema

T = TypeVar("T")
D = TypeVar("D")
SELF, ORGANIZATION = "self", "organization"
TARGET_ROLE = "ml-idle-reaper-target"
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


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a setting is written: the pattern of its text, how an error about another text goes on after it, and the value of the text.

    `is_secret`: errors don't repeat the text. Pydantic reads a field of `Settings` by the form that is annotated there.
    """

    pattern: str
    otherwise: str
    value_of: Callable[[str], T]
    is_secret: bool = False

    def fits(self, text: str) -> bool:
        """Whether the text has this form."""
        return re.fullmatch(self.pattern, text, re.ASCII) is not None

    def read(self, key: str, text: str) -> T:
        """The value. Raises SettingsError that names `key`."""
        if not self.fits(text):
            raise SettingsError(f"{key}{'' if self.is_secret else f'={text!r}'}{self.otherwise}")
        return self.value_of(text)

    def read_or(self, default: D, key: str, text: str | None) -> T | D:
        """The value, or the default for None. Raises SettingsError that names `key`."""
        return default if text is None else self.read(key, text)

    def read_all(self, key: str, texts: Collection[str]) -> tuple[T, ...]:
        """The values, each once. Raises SettingsError that names `key` and the first text of another form."""
        for text in texts:
            if not self.fits(text):
                raise SettingsError(f"{key}: {text!r}{self.otherwise}")
        return tuple(dict.fromkeys(map(self.value_of, texts)))

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        from pydantic_core import core_schema  # would slow every `--help` and cold start

        def read_setting(value: str | tuple[str, ...], info: ValidationInfo) -> object:
            name = _name_of(str(info.field_name))
            return self.read(name, value) if isinstance(value, str) else self.read_all(name, value)

        return core_schema.with_info_plain_validator_function(read_setting)


def _is_true(text: str) -> bool:
    return text.lower() in {"true", "1", "yes"}


def _without_slash(path: str) -> str:
    return path.removeprefix("/")


MODE = Form("|".join(MODES), f": unknown mode; use {', '.join(MODES[:-1])} or {MODES[-1]}", Mode)
FLAG = Form("(?i:true|false|1|0|yes|no)", ": use true or false", _is_true)
ACCOUNT_ID = Form("[0-9]{12}", " isn't an AWS account ID; use 12 digits, with leading zeros", str)
UNIT_ID = Form("ou-[0-9a-z]{4,32}-[0-9a-z]{8,32}", " isn't the ID of an organizational unit, such as ou-ab12-34cdefgh", str)
SUBSCRIPTION_ID = Form(
    "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    " isn't a subscription ID such as 00000000-0000-0000-0000-000000000000",
    str.lower,
)
ROLE_NAME = Form(
    r"/?([\w+=,.@-]+/)*[\w+=,.@-]{1,64}",
    " isn't a role's name; use NAME or PATH/NAME, without the ARN, because it is the same in each account",
    _without_slash,
)
EXTERNAL_ID = Form(
    r"[\w+=,.@:/-]{2,1224}", " isn't an external ID; use 2 to 1,224 letters, digits and +=,.@:/-", str, is_secret=True
)
MANAGEMENT_GROUP_ID = Form(r"[\w.()-]{1,90}", " isn't a management group's ID; use its ID, not its display name", str)
ROLE_ARN = Form(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", " is not an IAM role; use arn:aws:iam::ACCOUNT:role/NAME", str)
TOPIC_ARN = Form(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]+", " is not an SNS topic; use arn:aws:sns:REGION:ACCOUNT:NAME", str
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountScope:
    """The AWS accounts to sweep: those with these IDs, those of an organization, or those of its units. Nothing named: the credentials' own.

    `accounts` together with the organization or its units: only those of them that are in it, so that a call can't add one.
    `only_own_account`: no account but the credentials' own, whatever else is named.
    """

    accounts: tuple[str, ...] = ()
    organization: bool = False
    ous: tuple[str, ...] = ()
    only_own_account: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """Sender and recipients of the summary."""

    endpoint: str
    sender: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(AccountScope):
    """One run's settings, parsed. Empty tuples mean no restriction, but no `accounts`: only the credentials' own (`scope.accounts`).

    `role_name` is assumed in other accounts, `role` only in the own one.
    """

    mode: Annotated[Mode, MODE] = Mode.AUDIT
    cloud: str = "all"
    policy: str | None = None
    regions: tuple[str, ...] = ()
    exclude_accounts: Annotated[tuple[str, ...], ACCOUNT_ID] = ()
    role_name: Annotated[str, ROLE_NAME] = TARGET_ROLE
    external_id: Annotated[str | None, EXTERNAL_ID] = field(default=None, repr=False)
    subscriptions: Annotated[tuple[str, ...], SUBSCRIPTION_ID] = ()
    management_group: Annotated[str | None, MANAGEMENT_GROUP_ID] = None
    kinds: tuple[str, ...] = ()
    ledger: str | None = None
    manifests: str | None = None
    role: Annotated[str | None, ROLE_ARN] = None
    reports: str | None = None
    runs: str | None = None
    workflow: str | None = None
    topic: Annotated[str | None, TOPIC_ARN] = None
    email: Email | None = None
    quiet: Annotated[bool, FLAG] = False

    @property
    def account_scope(self) -> AccountScope:
        """The AWS accounts to sweep, before any is excluded."""
        return AccountScope(**{each.name: getattr(self, each.name) for each in fields(AccountScope)})


def from_env(environ: Mapping[str, str]) -> Settings:
    """The settings in `environ`. Raises SettingsError for an invalid value and for a name that looks misspelled."""
    from pydantic import TypeAdapter  # would slow every `--help` and cold start

    for name in environ:
        is_ours = name.startswith("REAPER_") and not name.startswith(secret_grants.SECRET_PREFIX)
        if is_ours and name not in SETTING_DOCS and (near := did_you_mean(name, SETTING_DOCS, cutoff=0.85)):
            raise SettingsError(f"unknown setting {name}{near}")
    texts = {name: value.strip() for name, value in environ.items() if name in SETTING_DOCS and value.strip()}
    values: dict[str, object] = {
        each.name: split_words(texts[name]) if each.default == () else texts[name]
        for each in fields(Settings)
        if (name := _name_of(each.name)) in texts
    }
    scope = parse_accounts("REAPER_ACCOUNTS", split_words(texts.get("REAPER_ACCOUNTS")))
    email: dict[str, object] = {key: texts.get(f"REAPER_EMAIL_{key.upper()}") for key in ("endpoint", "sender")}
    email |= {"to": split_words(texts.get("REAPER_EMAIL_TO"))}
    if any(email.values()) and not all(email.values()):
        raise SettingsError("REAPER_EMAIL_ENDPOINT, REAPER_EMAIL_SENDER and REAPER_EMAIL_TO go together; set all three or none")
    settings: Settings = TypeAdapter(Settings).validate_python(
        {**values, **asdict(scope), "email": email if all(email.values()) else None}
    )
    return settings


def _name_of(field_name: str) -> str:
    """The setting of that field."""
    return "REAPER_TARGET_ROLE" if field_name == "role_name" else f"REAPER_{field_name.upper()}"


def parse_accounts(key: str, words: Sequence[str]) -> AccountScope:
    """The scope that `self`, `organization`, account IDs or unit IDs name. Raises SettingsError that names `key`."""
    units = tuple(word for word in words if word.startswith("ou-"))
    ids = tuple(word for word in words if word not in {SELF, ORGANIZATION, *units})
    scope = AccountScope(
        accounts=ACCOUNT_ID.read_all(key, ids),
        organization=ORGANIZATION in words,
        ous=UNIT_ID.read_all(key, units),
        only_own_account=SELF in words,
    )
    if SELF in words and len(words) > 1:
        raise SettingsError(f"{key}: self stands alone; to sweep other accounts as well, name your own by its ID")
    if ids and (units or scope.organization):
        other = units[0] if units else ORGANIZATION
        raise SettingsError(f"{key}: {ids[0]} and {other} don't go together; use account IDs, or organization, or unit IDs")
    return scope


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
    units = UNIT_ID.read_all("ous", options.get("ous", ()))
    whole = [ORGANIZATION] * options.get("organization", False)
    asked = parse_accounts("accounts", [*options.get("accounts", ()), *units, *whole])
    options |= {
        **asdict(narrow_accounts(settings.account_scope, asked)),
        "exclude_accounts": (
            *settings.exclude_accounts,
            *ACCOUNT_ID.read_all("exclude_accounts", options.get("exclude_accounts", ())),
        ),
        "subscriptions": SUBSCRIPTION_ID.read_all("subscriptions", options.get("subscriptions", settings.subscriptions)),
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


def narrow_accounts(configured: AccountScope, asked: AccountScope) -> AccountScope:
    """`configured`, narrowed to what a call asks for. Raises SettingsError for an account, a unit or an organization outside it."""
    is_whole = configured.organization and not configured.ous
    if asked.organization and not is_whole:
        raise _outside("accounts", ORGANIZATION, configured)
    ous = () if is_whole else [unit for unit in asked.ous if unit not in configured.ous]
    others = [account for account in asked.accounts if configured.accounts and account not in configured.accounts]
    for key, outside in (("ous", ous), ("accounts", others)):
        if outside:
            raise _outside(key, outside[0], configured)
    is_own_by_default = not (configured.accounts or configured.organization or configured.ous)
    return replace(
        configured,
        accounts=asked.accounts or configured.accounts,
        ous=asked.ous or configured.ous,
        only_own_account=configured.only_own_account or asked.only_own_account or (is_own_by_default and bool(asked.accounts)),
    )


def _outside(key: str, name: str, configured: AccountScope) -> SettingsError:
    whole = "the whole organization" if configured.organization else "its own account"
    places = ", ".join((*configured.ous, *configured.accounts)) or whole
    return SettingsError(f"{key}: this deployment doesn't sweep {name!r}, only {places}; a call can only narrow them")


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


def split_words(texts: str | Iterable[str] | None) -> tuple[str, ...]:
    """The words of a comma-separated text, or of several, without blanks and repeats."""
    text = texts if isinstance(texts, str) else ",".join(texts or ())
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def expand_kinds(globs: Collection[str], kinds: Collection[str]) -> tuple[str, ...]:
    """The kinds that `globs` name; no glob means all. Raises SettingsError for a glob that fits none."""
    for glob in globs:
        if not any(fnmatchcase(kind, glob) for kind in kinds):
            hint = did_you_mean(glob, kinds, cutoff=0.4) or f"; valid: {', '.join(kinds)}"
            raise SettingsError(f"unknown kind {glob!r}{hint}")
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
        return MODE.read(name, value) if name == "mode" else value
    if name == "organization":
        if not isinstance(value, bool):
            raise SettingsError(f"{name}: {value!r} is not true or false")
        return value
    if not isinstance(value, str | list) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f"{name}: {value!r} is not a list of strings")
    words = split_words(value)
    if not words:
        raise SettingsError(f"{name}: {value!r} is empty; leave it out to include all that this deployment sweeps")
    return words
