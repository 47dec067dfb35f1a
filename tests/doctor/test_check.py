"""A check as data, as JSON, and as text on terminals of any width."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import jsonschema
import pytest

from reaper.cli import doctor
from reaper.doctor.check import (
    Check,
    CheckStatus,
    advice_for,
    asked_right,
    checks_json,
    exit_status,
    of_error,
    ok,
    rights_checks,
    summary_line,
    to_fix,
    unknown,
)
from reaper.errors import CloudError, Reason, SettingsError

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "checks"],
    "properties": {
        "schema": {"const": 1},
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["check", "status", "because", "fix", "missing"],
                "properties": {
                    "check": {"type": "string", "minLength": 1},
                    "status": {"enum": ["ok", "fix", "unknown"]},
                    "because": {"type": "string", "minLength": 1},
                    "fix": {"type": ["string", "null"]},
                    "missing": {"type": ["string", "null"]},
                },
            },
        },
    },
}
COMMAND = "aws iam put-role-policy --role-name reaper --policy-name reaper-x --policy-document '" + "x" * 200 + "'"
CHECKS = [
    ok(
        "credentials.aws",
        "signed in as arn:aws:sts::123456789012:assumed-role/reaper-sweep/me, and a long reason that has to wrap",
    ),
    to_fix("reading.aws", "sagemaker:ListEndpoints in account 123456789012: denied", COMMAND, "sagemaker:ListEndpoints"),
    unknown("acting.aws", "the simulation failed"),
]


def test_the_json_has_exactly_the_documented_keys():
    content = json.loads(json.dumps(checks_json(CHECKS), allow_nan=False))
    jsonschema.validate(content, SCHEMA)
    assert content["checks"][1]["missing"] == "sagemaker:ListEndpoints"


@pytest.mark.parametrize(("checks", "status"), [(CHECKS, 1), (CHECKS[:1], 0), (CHECKS[2:], 0), ([], 0)])
def test_only_what_needs_mending_makes_the_status_1(checks: list[Check], status: int):
    assert exit_status(checks) == status


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_reasons_wrap_and_commands_never_do(width: int):
    lines = doctor.render(CHECKS, width).splitlines()
    assert any(line.endswith(COMMAND) for line in lines)
    assert all(len(line) <= max(width, doctor.MIN_WIDTH) for line in lines if COMMAND not in line and len(line.split()) > 2)
    assert " ".join(doctor.render(CHECKS, width).split()).endswith("3 checks: 1 ok, 1 to fix, 1 unknown")


def test_markup_and_control_characters_of_others_are_harmless():
    rendered = doctor.render([to_fix("x", "[red]a\x1b[31m\nb", "y")], 80)
    assert "[red]a [31m b" in rendered
    assert "\x1b" not in rendered


def test_the_summary_counts_each_status():
    assert summary_line(CHECKS) == "3 checks: 1 ok, 1 to fix, 1 unknown"


@pytest.mark.parametrize(
    ("error", "status", "missing"),
    [
        (CloudError(Reason.DENIED, "s3:PutObject", "no", missing="s3:PutObject"), CheckStatus.FIX, "s3:PutObject"),
        (CloudError(Reason.UNREACHABLE, "s3:PutObject", "no route"), CheckStatus.FIX, None),
        (CloudError(Reason.THROTTLED, "s3:PutObject", "later"), CheckStatus.UNKNOWN, None),
        (CloudError(Reason.UNREADABLE, "s3:PutObject", "odd"), CheckStatus.UNKNOWN, None),
        (SettingsError("is not authorized to perform: ssm:GetParameter on resource: x"), CheckStatus.FIX, "ssm:GetParameter"),
        (SettingsError("no such table"), CheckStatus.FIX, None),
    ],
)
def test_what_proves_nothing_needs_no_mending(error, status: CheckStatus, missing: str | None):
    check = of_error("ledger", error, "do this")
    assert (check.status, check.missing) == (status, missing)


def right_of_error(permission: str, place: str, error: CloudError, grant: Callable[[str], str]) -> Check:
    def ask() -> None:
        raise error

    return asked_right(permission, place, ask, grant)


class UnauthorizedSSOTokenError(Exception):
    """As an SDK calls it."""


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        (UnauthorizedSSOTokenError("expired"), "Sign in"),
        (ConnectionError("refused"), "Check the network"),
        (None, "Check the network"),
    ],
)
def test_without_credentials_the_network_is_not_blamed(cause: Exception | None, advice: str):
    error = CloudError(Reason.UNREACHABLE, "sts:GetCallerIdentity", "nothing was sent")
    error.__cause__ = cause
    outer = error.reworded("the ledger can't be read")
    outer.__cause__ = error
    assert str(of_error("ledger", outer, "do this").fix).startswith(advice)
    [check] = rights_checks("reading.aws", [right_of_error("a:B", "account 1", error, str)], "reading")
    assert str(check.fix).startswith(advice)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "ExpiredTokenException: The security token included in the request is expired",
            "Sign in again, or get new temporary keys.",
        ),
        (
            "An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.",
            "Sign in again",
        ),
        ("RequestExpired: Request has expired.", "Sign in again"),
        ("Error when retrieving token from sso: Token has expired and refresh failed", "aws sso login --profile default"),
        ("no token: AzureCliCredential: ERROR: AADSTS70043: The refresh token has expired", "az login"),
        ("ExpiredAuthenticationToken: The access token expiry UTC time is earlier than now", "az login"),
    ],
)
def test_a_session_that_has_ended_is_said_as_such(monkeypatch: pytest.MonkeyPatch, text: str, advice: str):
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for error in (CloudError(Reason.REFUSED, "a:B", text), SettingsError(text)):
        check = of_error("policy", error, "do this")
        assert (check.status, check.because.startswith("the session has ended: ")) == (CheckStatus.FIX, True)
        assert str(check.fix).startswith(advice)
    refused = right_of_error("a:B", "account 1", CloudError(Reason.REFUSED, "a:B", text), str)
    [line] = rights_checks("reading.aws", [refused], "reading")
    assert (line.status, str(line.fix).startswith(advice)) == (CheckStatus.FIX, True)


def test_what_has_expired_otherwise_is_no_session():
    assert of_error("policy", SettingsError("the acceptance expired on 2020-01-31"), "do this").fix == "do this"


def right(permission: str, place: str, status: CheckStatus = CheckStatus.OK, because: str = "") -> Check:
    missing = permission if status is CheckStatus.FIX else None
    return Check(permission=permission, place=place, status=status, because=because, fix="do this", missing=missing)


def test_the_same_permission_missing_in_many_places_is_one_line():
    rights = [right("a:B", f"account {n}", CheckStatus.FIX, f"denied in {n}") for n in range(5)] + [right("a:C", "account 1")]
    there, missing = rights_checks("reading.aws", rights, "reading")
    assert there.because == "1 permission for reading granted in account 1"
    assert missing.because == "a:B in account 0, account 1, account 2 and 2 more: denied in 0"


def test_places_that_take_different_commands_are_lines_of_their_own():
    rights = [replace(right("a/B", f"subscription {n}", CheckStatus.FIX), fix=f"grant it in {n}") for n in (1, 2, 1)]
    checks = list(rights_checks("acting.azure", rights, "acting"))
    assert [(check.because, check.fix) for check in checks] == [
        ("a/B in subscription 1: ", "grant it in 1"),
        ("a/B in subscription 2: ", "grant it in 2"),
    ]


def test_the_same_reason_to_know_nothing_is_one_line():
    rights = [right(f"a:{name}", "account 1", CheckStatus.UNKNOWN, "the simulation failed") for name in "BCDEF"]
    [check] = rights_checks("acting.aws", rights, "acting")
    assert check.because == "5 permissions (a:B, a:C, a:D and 2 more) in account 1: the simulation failed"


ASKED = "User: arn:aws:sts::123456789012:assumed-role/r/x is not authorized to perform: sagemaker:ListEndpoints on resource: arn:aws:x "
POLICY_ARN = "arn:aws:organizations::123456789012:policy/o-1/service_control_policy/p-1"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (f"with an explicit deny in a service control policy: {POLICY_ARN}", f"a service control policy: {POLICY_ARN}"),
        ("because no service control policy allows the sagemaker:ListEndpoints action", "no service control policy allows"),
        ("with an explicit deny in a resource control policy", "a resource control policy"),
        ("because no permissions boundary allows the sagemaker:ListEndpoints action", "no permissions boundary allows"),
        ("with an explicit deny in a permissions boundary", "a permissions boundary"),
        ("because no resource-based policy allows the sagemaker:ListEndpoints action", "no resource-based policy allows"),
        ("with an explicit deny in a resource-based policy", "a resource-based policy"),
        ("with an explicit deny in an identity-based policy", "an identity-based policy"),
        ("because no session policy allows the sagemaker:ListEndpoints action", "no session policy allows"),
        ("because no VPC endpoint policy allows the sagemaker:ListEndpoints action", "no VPC endpoint policy allows"),
        ("however, the access is denied because of the deny assignment with name 'x'", "deny assignment"),
        ("because no identity-based policy allows the sagemaker:ListEndpoints action", None),
        ("", None),
    ],
)
def test_no_grant_is_offered_where_none_can_help(said: str, named: str | None):
    error = CloudError(Reason.DENIED, "sagemaker:ListEndpoints", ASKED + said, missing="sagemaker:ListEndpoints")
    right = right_of_error("sagemaker:ListEndpoints", "account 1", error, "grant {}".format)
    advice = advice_for(error, "", "otherwise")
    if named is None:
        assert right.fix == "grant sagemaker:ListEndpoints"
        assert "No grant helps" not in advice
        return
    assert right.fix == advice
    assert advice.startswith("No grant helps, because of what the refusal names: ")
    assert named in advice
    assert "Ask those who manage that to allow sagemaker:ListEndpoints." in advice
