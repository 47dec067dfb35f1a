"""Which secrets a policy may name. Pure.

A policy says both which secret is read and which server gets it, and whoever may edit it need not be whoever deploys. So it names only what
the deployment set aside for it: variables that begin with `REAPER_SECRET_`, and the secrets that REAPER_SECRETS lists. The same holds on
the command line, where the rights in use are a person's and usually far wider. Never the place of the keys that sign snooze links.

Secrets Manager puts a dash and six random letters or digits behind a name in the whole ARN; an ARN may be written without them, too. So the
end of an ARN may be either, and is taken for what does less: where something is granted, for a part of the name if it looks like a word,
and where something is refused, for both. A name alone is a name. https://docs.aws.amazon.com/secretsmanager/latest/userguide/troubleshoot.html#ARN_secretnamehyphen
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
_ANY_SUFFIX = "-??????"
"""How a pattern says what Secrets Manager puts behind a name."""
_RANDOM_SUFFIX = re.compile(r"-(?:[A-Za-z0-9]{6}|\?{6})$")
_WORD_SUFFIX = re.compile(r"-(?:[A-Za-z]?[a-z]*|[A-Z]*)[0-9]*$")
"""An end that looks like a word, a year or both. Of the random ones about 3 in 100 do."""
_EXAMPLE_SUFFIX = "-AbCdEf"


def forbidden_because(ref: str, environ: Mapping[str, str]) -> str | None:
    """Why a policy may not name `ref` as a secret under these settings; None where it may. Says the place, which is no secret.

    Raises SettingsError for a setting that holds no address where one is expected.
    """
    scheme, _, place = ref.partition(":")
    shown = shorten(ref, 200)
    if scheme == "env":
        if not _ENV_REF.fullmatch(ref):
            return f"{shown}: a policy may only name variables that begin with {SECRET_PREFIX}: {rename_advice(ref)}"
    elif scheme == "keyvault" and _vault_path(place) is None:
        return f"{shown}: not an address such as https://<vault>.vault.azure.net/secrets/<name>"
    elif not any(_entry_covers(entry, scheme, place) for entry in _listed_secrets(environ)):
        now = shorten(environ.get(SECRETS_SETTING) or "empty", 500)
        return f"{shown}: not one of the secrets that this policy may name: add it to {SECRETS_SETTING} (now {now})"
    if _may_be_signing_key(ref, environ):
        return f"{shown}: {KEYS_SETTING} is kept there, and what signs snooze links is never sent anywhere: keep this secret in a place of its own"
    return None


def rename_advice(ref: str) -> str:
    """What to do about a variable that a policy may not name."""
    name = re.sub(r"[^A-Z0-9_]", "_", ref.partition(":")[2].upper()).removeprefix(SECRET_PREFIX) or "NAME"
    return f"rename it and write `secret: env:{SECRET_PREFIX}{shorten(name)}`"


def _listed_secrets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Scheme and place of what the setting lists; each may be written with its scheme or without. Raises SettingsError."""
    for entry in filter(None, map(str.strip, environ.get(SECRETS_SETTING, "").split(","))):
        said, _, place = entry.partition(":")
        if said not in {"secretsmanager", "keyvault"}:
            said, place = ("keyvault" if entry.startswith("https://") else "secretsmanager"), entry
        if said == "keyvault":
            require_vault_address(place, SECRETS_SETTING)
        if place:
            yield said, place.partition("#")[0]


def _entry_covers(entry: tuple[str, str], scheme: str, place: str) -> bool:
    """Whether an entry of the setting, with `*` and `?` for any letters, is for the secret at `place`."""
    said, asked = entry
    if said != scheme:
        return False
    if scheme == "keyvault":
        return _matches_glob(_vault_path(asked) or "", _vault_path(place) or "")
    return _is_granted(asked, place.partition("#")[0])


def _is_granted(asked: str, name: str) -> bool:
    """Of Secrets Manager. A bare name is of this account and region, so that it never stands for another one's ARN."""
    if not asked.startswith("arn:"):
        return not name.startswith("arn:") and _matches_glob(asked, name)
    if name.startswith("arn:"):
        # Both whole, one of them whole, or both without what stands behind the name.
        return (
            _matches_glob(asked, name)
            or _matches_glob(asked, name + _EXAMPLE_SUFFIX)
            or _matches_glob(_without_suffix(asked), name)
            or _matches_glob(asked, _without_suffix(name))
        )
    tail = asked.split(":", 6)[-1]
    return _matches_glob(_without_suffix(tail), name) or _matches_glob(tail, name + _EXAMPLE_SUFFIX)


def _may_be_signing_key(ref: str, environ: Mapping[str, str]) -> bool:
    """Whether the keys that sign links may be kept there, however each place is spelled."""
    (scheme, _, place), (other, _, theirs) = ref.partition(":"), environ.get(KEYS_SETTING, "").strip().partition(":")
    if other == "keyvault":
        require_vault_address(theirs, KEYS_SETTING)
    if scheme != other:
        return False
    if scheme == "keyvault":
        return _vault_and_name(place) == _vault_and_name(theirs)
    if scheme != "secretsmanager":
        return place == theirs
    mine, keys = place.partition("#")[0], theirs.partition("#")[0]
    if {_name_part(mine), _likely_name(mine)} & {_name_part(keys), _likely_name(keys)}:
        return True
    # An end that looks like a word may still be a random one. Only who granted this very place has said that it is another one.
    return bool(_possible_names(mine) & _possible_names(keys)) and ("secretsmanager", mine) not in _listed_secrets(environ)


def _vault_and_name(address: str) -> tuple[str, str]:
    """The vault and the name of its secret: a vault has several host names, which all begin with its own."""
    whole = _vault_path(address) or ""
    return whole.partition(".")[0], whole.rpartition("/")[2]


def _name_part(place: str) -> str:
    """What stands for the name in an ARN; a name itself."""
    return place.split(":", 6)[-1] if place.startswith("arn:") else place


def _likely_name(place: str) -> str:
    """The name that is most likely meant."""
    return _without_suffix(_name_part(place)) if place.startswith("arn:") else place


def _possible_names(place: str) -> set[str]:
    """Every name that may be meant."""
    return {_name_part(place), _RANDOM_SUFFIX.sub("", _name_part(place))} if place.startswith("arn:") else {place}


def _without_suffix(arn: str) -> str:
    """An ARN or its tail without what stands behind the name, where that is surely no part of the name."""
    return arn if _WORD_SUFFIX.search(arn) else _RANDOM_SUFFIX.sub("", arn)


def require_vault_address(place: str, setting: str) -> None:
    """Raises SettingsError, which names the setting, for a place in Key Vault that is no address."""
    if _vault_path(place) is None:
        raise SettingsError(
            f"{setting}: {shorten(place, 200)!r} is not an address such as https://<vault>.vault.azure.net/secrets/<name>"
        )


def _vault_path(address: str) -> str | None:
    """Host and name, which Key Vault reads in any case; which version is asked for makes no other secret of it. None for no address."""
    parts = split_address(address)
    if parts.scheme != "https":
        return None
    host = (parts.hostname or "").rstrip(".")
    return "/".join([host, *[part for part in parts.path.split("/") if part][:2]]).lower()


def _matches_glob(pattern: str, text: str) -> bool:
    """`*` and `?` as IAM reads them; every other letter is itself."""
    return bool(re.fullmatch("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), text))
