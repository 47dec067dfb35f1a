"""Which secrets a policy may name. Pure.

A policy chooses both the secret that is read and the server that gets it, and its editors may not be the people who deploy. So it may only
name what the deployment sets aside for it: variables that begin with `REAPER_SECRET_`, and the secrets in REAPER_SECRETS. The same applies
on the command line, where a person's rights are usually far wider. The keys that sign snooze links are never allowed.

Secrets Manager appends a dash and six random letters or digits to the name in a full ARN; an ARN may be written without them, too. So the
end of an ARN is ambiguous, and the stricter reading counts: for a grant it's part of the name if it looks like a word, for a refusal it's
both. A name alone is a name. https://docs.aws.amazon.com/secretsmanager/latest/userguide/troubleshoot.html#ARN_secretnamehyphen
Names and ARNs of secrets: https://docs.aws.amazon.com/secretsmanager/latest/userguide/getting-started.html#term_secret
Addresses and names in Key Vault: https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from reaper.errors import SettingsError
from reaper.text import shorten
from reaper.urls import split_address

SECRET_PREFIX = "REAPER_SECRET_"
SECRETS_SETTING, KEYS_SETTING = "REAPER_SECRETS", "REAPER_SNOOZE_KEYS"
_ENV_REF = re.compile(rf"env:{SECRET_PREFIX}[A-Z0-9_]+")
_RANDOM_SUFFIX = re.compile(r"-(?:[A-Za-z0-9]{6}|\?{6})$")
_WORD_SUFFIX = re.compile(r"-(?:[A-Za-z]?[a-z]*|[A-Z]*)[0-9]*$")
"""An end that looks like a word, a year or both. About 3 in 100 random ends do."""
_EXAMPLE_SUFFIX = "-AbCdEf"


def forbidden_because(ref: str, environ: Mapping[str, str]) -> str | None:
    """Why a policy may not name the secret `ref`, or None. Raises SettingsError if a setting has something other than an address."""
    scheme, _, place = ref.partition(":")
    shown = shorten(ref, 200)
    if scheme == "env":
        if not _ENV_REF.fullmatch(ref):
            name = re.sub(r"[^A-Z0-9_]", "_", place.upper()).removeprefix(SECRET_PREFIX) or "NAME"
            fix = f"rename it and write `secret: env:{SECRET_PREFIX}{shorten(name)}`"
            return f"{shown}: a policy may only name variables that begin with {SECRET_PREFIX}; {fix}"
    elif scheme == "keyvault" and _vault_path(place) is None:
        return f"{shown}: not a Key Vault address; use https://<vault>.vault.azure.net/secrets/<name>"
    elif not any(_entry_covers(entry, scheme, place) for entry in _listed_secrets(environ)):
        now = shorten(environ.get(SECRETS_SETTING) or "empty", 500)
        return f"{shown}: this policy may not name it; add it to {SECRETS_SETTING} (now {now})"
    if _may_be_signing_key(ref, environ):
        return f"{shown}: holds {KEYS_SETTING}, and the keys of snooze links are never sent anywhere; store this secret elsewhere"
    return None


def _listed_secrets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Scheme and address of each secret in the setting, written with or without the scheme. Raises SettingsError."""
    for entry in filter(None, map(str.strip, environ.get(SECRETS_SETTING, "").split(","))):
        scheme, _, place = entry.partition(":")
        if scheme not in {"secretsmanager", "keyvault"}:
            scheme, place = ("keyvault" if entry.startswith("https://") else "secretsmanager"), entry
        if scheme == "keyvault":
            require_vault_address(place, SECRETS_SETTING)
        if place:
            yield scheme, place.partition("#")[0]


def _entry_covers(entry: tuple[str, str], scheme: str, place: str) -> bool:
    """Whether an entry of the setting, with `*` and `?` for any letters, covers the secret at `place`."""
    entry_scheme, pattern = entry
    if entry_scheme != scheme:
        return False
    if scheme == "keyvault":
        return _matches_glob(_vault_path(pattern) or "", _vault_path(place) or "")
    return _is_granted(pattern, place.partition("#")[0])


def _is_granted(pattern: str, name: str) -> bool:
    """Whether a pattern covers a secret in Secrets Manager. A bare name is in this account and region, so it never covers an ARN."""
    if not pattern.startswith("arn:"):
        return not name.startswith("arn:") and _matches_glob(pattern, name)
    if name.startswith("arn:"):
        # Both full ARNs, one of them full, or both without the random end.
        return (
            _matches_glob(pattern, name)
            or _matches_glob(pattern, name + _EXAMPLE_SUFFIX)
            or _matches_glob(_without_suffix(pattern), name)
            or _matches_glob(pattern, _without_suffix(name))
        )
    tail = pattern.split(":", 6)[-1]
    return _matches_glob(_without_suffix(tail), name) or _matches_glob(tail, name + _EXAMPLE_SUFFIX)


def _may_be_signing_key(ref: str, environ: Mapping[str, str]) -> bool:
    """Whether `ref` may be the secret with the keys that sign links, however each address is spelled."""
    scheme, _, place = ref.partition(":")
    keys_scheme, _, keys_place = environ.get(KEYS_SETTING, "").strip().partition(":")
    if keys_scheme == "keyvault":
        require_vault_address(keys_place, KEYS_SETTING)
    if scheme != keys_scheme:
        return False
    if scheme == "keyvault":
        return _vault_and_name(place) == _vault_and_name(keys_place)
    if scheme != "secretsmanager":
        return place == keys_place
    secret, keys = place.partition("#")[0], keys_place.partition("#")[0]
    if {_name_part(secret), _likely_name(secret)} & {_name_part(keys), _likely_name(keys)}:
        return True
    # An end that looks like a word may still be random. Only a grant of this very address says that it is another secret.
    return bool(_possible_names(secret) & _possible_names(keys)) and ("secretsmanager", secret) not in _listed_secrets(environ)


def _vault_and_name(address: str) -> tuple[str, str]:
    """The vault and the name of the secret. A vault has several host names, which all begin with the vault's name."""
    whole = _vault_path(address) or ""
    return whole.partition(".")[0], whole.rpartition("/")[2]


def _name_part(place: str) -> str:
    """The end of an ARN that contains the name; a bare name itself."""
    return place.split(":", 6)[-1] if place.startswith("arn:") else place


def _likely_name(place: str) -> str:
    return _without_suffix(_name_part(place)) if place.startswith("arn:") else place


def _possible_names(place: str) -> set[str]:
    return {_name_part(place), _RANDOM_SUFFIX.sub("", _name_part(place))} if place.startswith("arn:") else {place}


def _without_suffix(arn: str) -> str:
    """An ARN or its tail without the random end, if that is surely no part of the name."""
    return arn if _WORD_SUFFIX.search(arn) else _RANDOM_SUFFIX.sub("", arn)


def require_vault_address(place: str, setting: str) -> None:
    """Raises SettingsError that names the setting, if `place` isn't an address in Key Vault."""
    if _vault_path(place) is None:
        raise SettingsError(
            f"{setting}: {shorten(place, 200)!r} is not a Key Vault address; use https://<vault>.vault.azure.net/secrets/<name>"
        )


def _vault_path(address: str) -> str | None:
    """Host and name, whose case Key Vault ignores, without the version. None if `address` isn't one."""
    parts = split_address(address)
    if parts.scheme != "https":
        return None
    host = (parts.hostname or "").rstrip(".")
    return "/".join([host, *[part for part in parts.path.split("/") if part][:2]]).lower()


def _matches_glob(pattern: str, text: str) -> bool:
    """Whether the text fits; `*` and `?` are wildcards as in IAM."""
    return bool(re.fullmatch("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), text))
