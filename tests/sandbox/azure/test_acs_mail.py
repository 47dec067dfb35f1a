"""Mail through Azure Communication Services with the real SDK."""

from __future__ import annotations

import base64

import pytest
from azure.communication.email import EmailClient
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError

from reaper_sandbox.azure.server import Server
from sandbox.azure import sdk

MAIL = {
    "senderAddress": "reaper@example.com",
    "recipients": {"to": [{"address": "ml-admins@example.com", "displayName": "Admins"}]},
    "content": {"subject": "3 idle", "plainText": "Three are idle.", "html": "<p>Three are idle.</p>"},
}


def test_a_sent_mail_is_accepted_and_stored(server: Server) -> None:
    poller = sdk.mailer(server).begin_send(MAIL)
    assert poller.result()["status"] == "Succeeded"
    (mail,) = server.mails
    assert mail["content"] == MAIL["content"]
    assert server.mutations == []


def test_an_access_key_works_as_well_as_a_token(server: Server) -> None:
    client = EmailClient(server.url, AzureKeyCredential(base64.b64encode(b"key").decode()), polling_interval=0)
    assert client.begin_send(MAIL).result()["status"] == "Succeeded"


@pytest.mark.parametrize("missing", ["senderAddress", "recipients", "content"])
def test_an_incomplete_mail_is_refused(server: Server, missing: str) -> None:
    with pytest.raises(HttpResponseError):
        sdk.mailer(server).begin_send({key: value for key, value in MAIL.items() if key != missing})
    assert server.mails == []
