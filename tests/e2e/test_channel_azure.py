"""Azure Communication Services Email: the real SDK against the simulated Azure."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from e2e.post import digest, error, opened, receipt
from reaper.errors import Reason
from reaper_sandbox.azure import fault as azure_fault
from reaper_sandbox.azure.server import Server as Azure


@pytest.mark.parametrize("by", ["identity", "key"])
def test_azure_mail_uses_the_apps_identity_or_a_key(by: str, azure: Azure):
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    spec |= {"secret": "env:REAPER_SECRET_ACS"} if by == "key" else {}
    got = receipt(opened(f"  - {json.dumps(spec)}\n", REAPER_SECRET_ACS=base64.b64encode(b"k" * 32).decode()))
    [mail] = azure.mails
    assert got == mail["id"]
    assert mail["senderAddress"] == "DoNotReply@mail.example.com"
    assert mail["recipients"]["to"] == [{"address": "dana@example.com"}]
    assert mail["content"] == {"subject": digest().subject, "plainText": digest().text, "html": digest().html}


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        pytest.param(azure_fault.error(403, "Denied", "not allowed"), Reason.DENIED, id="403"),
        pytest.param(azure_fault.error(400, "InvalidSender", "no such sender"), Reason.REFUSED, id="400"),
        pytest.param(azure_fault.throttled(0), Reason.THROTTLED, id="429"),
        pytest.param(azure_fault.cut(), Reason.UNREACHABLE, id="cut"),
    ],
)
def test_refused_azure_mail_is_an_error(fault: azure_fault.Fault, trouble: Reason, azure: Azure):
    azure.rules.append(azure_fault.on("POST", "/emails:send", fault))
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    assert error(opened(f"  - {json.dumps(spec)}\n")).reason is trouble


def test_azure_mail_that_fails_after_acceptance_is_an_error(azure: Azure):
    body = {"id": "x", "status": "Failed", "error": {"code": "EmailDropped", "message": "the recipient is suppressed"}}
    azure.rules.append(azure_fault.on("GET", "/emails/operations/.*", azure_fault.Fault(answer=lambda r: _reply(body))))
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    assert "suppressed" in str(error(opened(f"  - {json.dumps(spec)}\n")))


def _reply(body: dict[str, Any]) -> Any:
    from reaper_sandbox.azure.request import Reply

    return Reply(body=json.dumps(body).encode())
