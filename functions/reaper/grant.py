"""Which secrets a policy may name. Pure.

A policy says both which secret is read and which server gets it, and whoever may edit it need not be whoever deploys. So it names only what
the deployment set aside for it: variables that begin with `REAPER_SECRET_`, and the secrets that REAPER_SECRETS lists. The same holds on
the command line, where the rights in use are a person's and usually far wider. Never the place of the keys that sign snooze links.

Names and ARNs of secrets: https://docs.aws.amazon.com/secretsmanager/latest/userguide/getting-started.html#term_secret
Addresses and names in Key Vault: https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

VARIABLE = "REAPER_SECRET_"
SETTING, KEYS = "REAPER_SECRETS", "REAPER_SNOOZE_KEYS"
_ENV = re.compile(rf"env:{VARIABLE}[A-Z0-9_]+")
_SUFFIX = re.compile(r"-[A-Za-z0-9?]{6}$")
"""What Secrets Manager puts behind a name in the ARN."""


def barred(ref: str, environ: Mapping[str, str]) -> str | None:
    """Why a policy may not name `ref` as a secret under these settings; None where it may. Says the place, which is no secret."""
    scheme, _, place = ref.partition(":")
    if scheme == "env":
        if not _ENV.fullmatch(ref):
            return f"{ref}: a policy may only name variables that begin with {VARIABLE}: {renamed(ref)}"
    elif not any(_covers(entry, scheme, place) for entry in environ.get(SETTING, "").split(",")):
        return f"{ref}: not one of the secrets that this policy may name: add it to {SETTING} (now {environ.get(SETTING) or 'empty'})"
    if _signs(ref, environ.get(KEYS, "").strip()):
        return f"{ref}: {KEYS} is kept there, and what signs snooze links is never sent anywhere: keep this secret in a place of its own"
    return None


def renamed(ref: str) -> str:
    """What to do about a variable that a policy may not name."""
    name = re.sub(r"[^A-Z0-9_]", "_", ref.partition(":")[2].upper()).removeprefix(VARIABLE) or "NAME"
    return f"rename it and write `secret: env:{VARIABLE}{name}`"


def _covers(entry: str, scheme: str, place: str) -> bool:
    """Whether an entry of the setting, with or without its scheme, and with `*` and `?` for any letters, is for the secret at `place`."""
    asked, name = entry.strip(), place.partition("#")[0]
    if asked.partition(":")[0] in {"secretsmanager", "keyvault"}:
        said, _, asked = asked.partition(":")
    else:
        said = "keyvault" if asked.startswith("https://") else "secretsmanager"
    if not asked or said != scheme:
        return False
    if scheme == "keyvault":
        return _fits(_vault(asked), _vault(name))
    return _granted(asked.partition("#")[0], name)


def _granted(asked: str, name: str) -> bool:
    """Of Secrets Manager. A bare name is of this account and region, so that it never stands for another one's ARN."""
    if not name.startswith("arn:"):
        patterns = _names(asked)
        return any(_fits(pattern, name) or _fits(pattern, f"{name}-AbCdEf") for pattern in patterns)
    return asked.startswith("arn:") and any(
        _fits(a, n) for a in {asked, _SUFFIX.sub("", asked)} for n in {name, f"{name}-AbCdEf"}
    )


def _signs(ref: str, keys: str) -> bool:
    """Whether both name one place, however each spells it."""
    (scheme, _, place), (other, _, theirs) = ref.partition(":"), keys.partition(":")
    if scheme != other:
        return False
    if scheme == "secretsmanager":
        return bool(_names(place.partition("#")[0]) & _names(theirs.partition("#")[0]))
    return _unique(place) == _unique(theirs) if scheme == "keyvault" else place == theirs


def _unique(address: str) -> tuple[str, str]:
    """The vault and the name of its secret: a vault has several host names, which all begin with its own."""
    whole = _vault(address)
    return whole.partition(".")[0], whole.rpartition("/")[2]


def _names(place: str) -> set[str]:
    """The name of a secret, and where it came out of an ARN also without what Secrets Manager puts behind it."""
    if not place.startswith("arn:"):
        return {place}
    name = place.split(":", 6)[-1]
    return {name, _SUFFIX.sub("", name)}


def _vault(address: str) -> str:
    """Host and name, which Key Vault reads in any case; which version is asked for makes no other secret of it."""
    parts = urlsplit(address)
    return "/".join([parts.hostname or "", *[part for part in parts.path.split("/") if part][:2]]).lower()


def _fits(pattern: str, text: str) -> bool:
    """`*` and `?` as IAM reads them; every other letter is itself."""
    return bool(re.fullmatch("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), text))
