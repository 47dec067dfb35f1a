"""No token of ours goes to a host that is not Azure's: what a policy, a setting or the ledger names is looked at first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from on_azure.conftest import NOW
from reaper.azure import session
from reaper.azure.channels.acs import Channel
from reaper.azure.stores import secrets, texts, trusted_hosts
from reaper.cli.sample import sample_message
from reaper.errors import CloudError, ReaperError, SettingsError
from reaper.finding import FinishedRun, Report
from reaper.ledger import opening
from reaper.model import Mode
from reaper.notices.channels.delivery import ChannelContext, mail_channel
from reaper.notices.summary_mail import send_audit_summary
from reaper.policy import file
from reaper.policy.channel_settings import Acs
from reaper.policy.schema import Owners
from reaper.snooze import links

GOV = {"REAPER_ARM_ENDPOINT": "https://management.usgovcloudapi.net"}
OTHER = {"REAPER_ARM_ENDPOINT": "https://management.sovereign.example/"}
PLAYED = {"REAPER_ARM_ENDPOINT": "https://127.0.0.1:4711"}


def set_endpoint(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's environment, with this endpoint of Resource Manager or none."""
    monkeypatch.delenv("REAPER_ARM_ENDPOINT", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("address", "service", "environ"),
    [
        ("https://acme.blob.core.windows.net/reports", "blob", {}),
        ("https://acme.blob.core.windows.net:443/reports", "blob", {}),
        ("https://acme.blob.core.windows.net./reports", "blob", {}),
        ("https://acme.blob.core.windows.net.:443/reports", "blob", {}),
        ("https://mail.communication.azure.us", "communication", GOV),
        ("https://ACME.Blob.Core.Windows.Net/reports", "blob", {}),
        ("https://acme.z12.blob.storage.azure.net/reports", "blob", {}),
        ("https://acme.blob.core.usgovcloudapi.net/reports", "blob", GOV),
        ("https://acme.blob.core.chinacloudapi.cn/reports", "blob", {}),
        ("https://acme.table.core.windows.net", "table", {}),
        ("https://team.vault.azure.net/secrets/x", "vault", {}),
        ("https://team.vault.usgovcloudapi.net/secrets/x", "vault", GOV),
        ("https://team.vault.azure.cn/secrets/x", "vault", {}),
        ("https://mail.germany.communication.azure.com", "communication", {}),
        ("https://team.vault.sovereign.example/secrets/x", "vault", OTHER),
        ("https://acme.blob.core.sovereign.example/reports", "blob", OTHER),
        ("https://acme.table.sovereign.example", "table", OTHER),
        ("https://127.0.0.1:10000/devstoreaccount1/reports", "blob", PLAYED),
        ("https://localhost:10000/devstoreaccount1/reports", "blob", PLAYED),
    ],
)
def test_azure_hosts_get_a_token(address: str, service: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    set_endpoint(environ, monkeypatch)
    assert trusted_hosts.refused_because(address, service) is None


@pytest.mark.parametrize(
    ("address", "service", "environ"),
    [
        ("https://evil.example/reports", "blob", {}),
        ("https://blob.core.windows.net/reports", "blob", {}),
        ("https://evilblob.core.windows.net/reports", "blob", {}),
        ("https://acme.blob.core.windows.net.evil.example/reports", "blob", {}),
        ("https://acme.blob.core.windows.net../reports", "blob", {}),
        ("https://evil.example./reports", "blob", {}),
        ("https://[acme.blob.core.windows.net/reports", "blob", {}),
        ("https://acme.table.cosmos.azure.com", "table", {}),
        ("https://mail.communication.azure.us", "communication", {}),
        ("https://mail.communication.azure.us", "communication", OTHER),
        ("http://127.0.0.1:10000/devstoreaccount1/reports", "blob", PLAYED),
        ("https://acme.blob.core.windows.net@evil.example/reports", "blob", {}),
        ("https://evil.example\\@acme.blob.core.windows.net/reports", "blob", {}),
        ("https://me@acme.blob.core.windows.net/reports", "blob", {}),
        ("https://acme.blob.core.windows.net:8443/reports", "blob", {}),
        ("https://evil.example#.blob.core.windows.net/reports", "blob", {}),
        ("https://evil.example?.blob.core.windows.net/reports", "blob", {}),
        ("http://acme.blob.core.windows.net/reports", "blob", {}),
        ("https://acme.vault.azure.net/reports", "blob", {}),
        ("https://acme.blob.core.windows.net/secrets/x", "vault", {}),
        ("https://team.vault.sovereign.example/secrets/x", "vault", GOV),
        ("https://team.vault.azure.com/secrets/x", "vault", {"REAPER_ARM_ENDPOINT": "https://management.azure.com"}),
        ("https://x.vault.com/secrets/x", "vault", {"REAPER_ARM_ENDPOINT": "https://management.com"}),
        ("https://team.vault.corp.example/secrets/x", "vault", {"REAPER_ARM_ENDPOINT": "https://proxy.corp.example"}),
        ("https://127.0.0.1:10000/devstoreaccount1/reports", "blob", {}),
        ("https://127.0.0.1:10000/devstoreaccount1/reports", "blob", GOV),
        ("https://203.0.113.7/devstoreaccount1/reports", "blob", PLAYED),
        ("https://169.254.169.254/x/y", "blob", PLAYED),
        ("https://127.0.0.1@evil.example/x", "blob", PLAYED),
    ],
)
def test_other_hosts_get_no_token_in_any_spelling(
    address: str, service: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    set_endpoint(environ, monkeypatch)
    assert "so it gets no token of the reaper's identity" in (trusted_hosts.refused_because(address, service) or "")


@pytest.mark.parametrize(
    ("address", "service", "environ", "reason"),
    [
        ("http://127.0.0.1:10000/reports", "blob", PLAYED, "tokens are only sent over https, not over http"),
        ("https://127.0.0.1:10000/reports", "blob", {}, "counts only if REAPER_ARM_ENDPOINT is on this machine too"),
        ("http://acme.blob.core.windows.net/reports", "blob", {}, "tokens are only sent over https, not over http"),
        ("https://acme.table.cosmos.azure.com", "table", {}, "accepts no storage token; use its connection string"),
        (
            "https://files.example.com/reports",
            "blob",
            {},
            "needs an address with a signature (SAS); or use the account's own host",
        ),
        ("https://mail.example.com", "communication", GOV, "those end with .communication.azure.com, .communication.azure.us"),
        ("https://files.example.com/reports", "blob", OTHER, ".blob.core.sovereign.example"),
        ("https://[x/reports", "blob", {}, "this is not an address such as https://<name>.blob.core.windows.net"),
    ],
)
def test_a_refused_address_comes_with_the_reason(
    address: str, service: str, environ: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
):
    set_endpoint(environ, monkeypatch)
    assert reason in (trusted_hosts.refused_because(address, service) or "")


def test_an_unparsable_address_is_a_settings_error(monkeypatch: pytest.MonkeyPatch):
    for call in (
        lambda: secrets.read_secret("https://[x/secrets/hook"),
        lambda: texts.read_bytes("https://[x/policies/policy.yaml", 9),
        lambda: texts.write_report("https://[x/reports", "r", NOW, "{}"),
        lambda: texts.list_texts("https://[x/manifests/run1"),
        lambda: session.hosts_from_env({"REAPER_ARM_ENDPOINT": "https://[x"}),
        lambda: links.open_keyring("keyvault:https://[x/secrets/ring", {}),
        lambda: links.open_signer({"REAPER_SNOOZE_URL": "https://[x", "REAPER_SNOOZE_KEYS": "env:K", "K": "x" * 40}, NOW),
    ):
        with pytest.raises(ReaperError, match=r"address|expected https://"):
            call()
    monkeypatch.setenv("REAPER_ARM_ENDPOINT", "https://[x")
    assert trusted_hosts.refused_because("https://127.0.0.1:10000/reports", "blob")


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A managed identity's endpoint; what was asked of it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(500)

        def log_message(self, *parts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.delenv("REAPER_ARM_ENDPOINT", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{server.server_port}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "x")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    yield paths
    server.shutdown()
    server.server_close()


def _acs(endpoint: str) -> Channel:
    spec = Acs.model_validate({"type": "acs", "endpoint": endpoint, "from": "reaper@example.com"})
    return Channel(spec, ChannelContext(read_secret=lambda ref: "", clock=lambda: NOW))


REPORT = Report(
    run=FinishedRun(id="r", started_at=NOW, finished_at=NOW, mode=Mode.AUDIT, version="0", policy_sha256="0"),
    coverage=(),
    findings=(),
)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: file.load_policy("https://evil.example/policies/policy.yaml"), id="a policy's address"),
        pytest.param(lambda: texts.write("https://evil.example/manifests", "a.json", "{}"), id="where manifests go"),
        pytest.param(lambda: texts.read_text("https://evil.example/manifests/a.json"), id="a manifest's address"),
        pytest.param(lambda: texts.list_texts("https://evil.example/manifests/run1"), id="the manifests of a run"),
        pytest.param(lambda: texts.write_report("https://evil.example/reports", "r", NOW, "{}"), id="where reports go"),
        pytest.param(lambda: secrets.read_secret("https://evil.example/secrets/hook"), id="a vault"),
        pytest.param(lambda: opening.open_ledger("table://acme.evil.example/ledger", {}), id="a ledger"),
        pytest.param(
            lambda: _acs("https://evil.example").send(sample_message("lee@example.com", NOW)), id="a policy's mail service"
        ),
        pytest.param(
            lambda: send_audit_summary(
                REPORT, Owners(), mail_channel("https://evil.example", "r@example.com", ["a@example.com"]), None, lambda: NOW
            ),
            id="the deployment's mail service",
        ),
    ],
)
def test_a_foreign_host_is_refused_before_a_token_is_requested(call, identity: list[str]):
    with pytest.raises(ReaperError, match="so it gets no token of the reaper's identity"):
        call()
    assert identity == []


def test_a_legitimate_address_is_opened(identity: list[str]):
    with pytest.raises(CloudError):
        secrets.read_secret("https://team.vault.azure.net/secrets/hook")
    assert identity, "a token was asked for"
    assert "vault.azure.net" in identity[0]


@pytest.mark.parametrize("path", ["secrets/a%2Fb", "secrets/", "secrets/a/b/c", "keys/a", "secrets/a?x=1", "secrets/%61"])
def test_an_address_that_is_not_a_vault_secret_is_refused(path: str):
    with pytest.raises(CloudError, match="expected https://<vault>"):
        secrets.read_secret(f"https://team.vault.azure.net/{path}")


def test_an_address_with_a_signature_needs_no_identity(identity: list[str]):
    with pytest.raises(SettingsError, match="can't be read"):
        texts.read_bytes("https://127.0.0.1:1/account/policies/policy.yaml?sv=1&sig=secret", 9)
    assert identity == []
