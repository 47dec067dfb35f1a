"""What an error reply of Azure means: no permission, throttled, gone, refused, or a provider that isn't registered.

Error envelopes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from reaper.azure.request import UNREGISTERED_TEXT, ArmRequest, Change
from reaper.errors import CloudError, Reason

_DENIED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' (?:over|at|on) (?:the )?scope '([^']+)'", re.IGNORECASE)
# The part of such a sentence before that names an allowed action.
_DENIED_LINKED_SENTENCE = re.compile(r"action(?:s|\(s\))? '([^']+)' on the linked scope(?:s|\(s\))? '([^']+)'", re.IGNORECASE)
_UNREGISTERED_SENTENCE = re.compile(
    r"not\s+(?:been\s+|yet\s+)?registered|unregistered|MissingSubscriptionRegistration|NotRegistered", re.IGNORECASE
)
_PROVIDER = re.compile(r"\bmicrosoft\.[a-z]+\b", re.IGNORECASE)
_GONE_CODES = {"ResourceNotFound", "NotFound", "ParentResourceNotFound"}
_NOT_FOUND = r"\W+(?:(?:was|is|could|can|does|did|has)\s+)?(?:not|cannot|\w+n't)\s+(?:be\s+|been\s+)?(?:found|exist)"
_SUBJECT = r"\W*(?:(?!of\b)\w+\s+){0,4}?['\"]?"
_NAMED_RESOURCE = re.compile(r"\bresource '([^']+)'", re.IGNORECASE)


def error_from_reply(request: ArmRequest | Change, status: int, body: str) -> CloudError:
    """The error of a reply, from its status, its code and, if access was denied, its sentence."""
    permission, scope, (code, text) = request.permission, request.path.partition("?")[0], _code_and_message(body)
    status_and_code = f"{status} {code}".strip()
    if provider := _unregistered_provider(permission, status, code, text):
        because = f"{provider} {UNREGISTERED_TEXT}; run `az provider register --namespace {provider}` ({status_and_code})"
        return CloudError(Reason.REFUSED, permission, because, code=status_and_code)
    if status in (401, 403):
        denied = _DENIED_LINKED_SENTENCE.search(text) or _DENIED_SENTENCE.search(text)
        action, place = denied.groups() if denied else (permission, scope)
        because = f"missing permission {action} on {place} ({code or status})"
        return CloudError(Reason.DENIED, permission, because, code=code, missing=action)
    if status == 429:
        how = "still throttled after every retry" if isinstance(request, ArmRequest) else "throttled"
        return CloudError(Reason.THROTTLED, permission, f"{how} ({code or status})", code=code)
    if status == 404 and _means_resource_gone(scope, code, text):
        return CloudError(Reason.GONE, permission, text or "not found", code=code)
    if not isinstance(request, ArmRequest) and (status >= 500 or status == 408):
        because = f"{status} {code}: {text}"[:400]
        return CloudError(Reason.UNREACHABLE, permission, f"{because}; it may have been carried out", code=f"{status} {code}")
    return CloudError(Reason.REFUSED, permission, f"{status} {code}: {text}"[:500], code=status_and_code)


def _means_resource_gone(scope: str, code: str, text: str) -> bool:
    """Whether a 404 says that the resource, or one above it, doesn't exist.

    A proxy, a wrong route, API version or subscription also answer 404, and say nothing about the resource. So may something it needs: if
    the text names a resource, it must be this one or one above it. Azure ML has a `UserError` for many things, so its sentence must be
    about the resource.
    """
    if code == "UserError":
        name = re.escape(scope.rstrip("/").rpartition("/")[2])
        return bool(re.match(f"{_SUBJECT}{name}{_NOT_FOUND}", text, re.IGNORECASE))
    named = _NAMED_RESOURCE.search(text)
    return code in _GONE_CODES and (named is None or named[1].strip("/").lower() in set(_resource_spellings(scope.lower())))


def _resource_spellings(scope: str) -> Iterator[str]:
    """How Azure spells the resource and those above it: by name, by alternating types and names, by all types and the last name."""
    provider, *rest = scope.rstrip("/").partition("/providers/")[2].partition("/providers/")[0].split("/")
    for end in range(2, len(rest) + 1, 2):
        yield rest[end - 1]
        yield "/".join([provider, *rest[:end]])
        yield "/".join([provider, *rest[0:end:2], rest[end - 1]])


def _unregistered_provider(permission: str, status: int, code: str, text: str) -> str | None:
    """The resource provider that isn't registered in the subscription; None if the reply doesn't say so.

    Resource Manager answers 409 MissingSubscriptionRegistration, the batch metrics hosts 403; a missing role is 401 there.
    """
    if status not in (403, 409) or code == "AuthorizationFailed" or not _UNREGISTERED_SENTENCE.search(f"{code} {text}"):
        return None
    named = _PROVIDER.search(text)
    return named[0] if named else permission.partition("/")[0]


def _code_and_message(text: str) -> tuple[str, str]:
    """Code and message. The single metrics call answers without the usual `error` around them; a proxy may not answer with JSON at all."""
    try:
        body = json.loads(text)
    except ValueError:
        return "", text[:200]
    error = body.get("error", body) if isinstance(body, dict) else {}
    return (str(error.get("code") or ""), str(error.get("message") or "")) if isinstance(error, dict) else ("", str(error)[:200])


def first_line(error: Exception) -> str:
    """The first line of the error's text, up to 300 characters."""
    lines = str(error).strip().splitlines() or [repr(error)]
    return lines[0][:300]
