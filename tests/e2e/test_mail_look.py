"""The mails in a real browser: no sideways scrolling on a phone, readable contrast by axe, nothing loaded; pictured for the docs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import mails
from fakes.builders import NOW
from reaper.case import Coverage
from reaper.cli import sample
from reaper.finding import FinishedRun, Report
from reaper.model import Mode, Status
from reaper.notices.admin_summary import admin_summary
from reaper.notices.message import Message

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the mails were NOT looked at in a browser")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed: the mails were NOT checked for axe"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the mails were NOT looked at in a browser")

IMAGES = Path(__file__).parents[2] / "docs/images"
PICTURE = "PICTURES"
"""Set, the pictures in docs/images are renewed."""


def owner_mail() -> Message:
    """The sample as the real notice that it shows."""
    [made] = mails.owner_notices(
        sample.sample_findings("dana@example.com", NOW),
        sample.sample_context("dana@example.com", NOW, "ml-admins@example.com"),
    )
    return made


def sample_mail() -> Message:
    return sample.sample_message("dana@example.com", NOW, "ml-admins@example.com")


def admin_mail() -> Message:
    run = FinishedRun(id="sample", started_at=NOW, finished_at=NOW, mode=Mode.NOTIFY, version="0", policy_sha256="0" * 64)
    denied = Coverage(
        cloud="aws",
        account="123456789012",
        region="eu-west-1",
        kind="sagemaker-notebook",
        status=Status.DENIED,
        missing="sagemaker:ListNotebookInstances",
        error="sagemaker:ListNotebookInstances: access denied",
    )
    findings = tuple(sample.sample_findings("dana@example.com", NOW))
    report = Report(run=run, coverage=(denied,), findings=findings)
    message = admin_summary(report, sample.sample_context("dana@example.com", NOW), {findings[0].case.resource.id})
    assert message is not None
    return message


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield chromium
        chromium.close()


@pytest.mark.parametrize("mail", [owner_mail, sample_mail, admin_mail], ids=["mail", "sample", "mail-summary"])
@pytest.mark.parametrize(
    ("look", "width", "scheme"), [("light", 720, "light"), ("dark", 720, "dark"), ("narrow", 375, "light"), ("tiny", 320, "dark")]
)
def test_mails_render_everywhere_and_load_nothing(look: str, width: int, scheme: str, mail, browser):
    page = browser.new_page(viewport={"width": width, "height": 700}, color_scheme=scheme, device_scale_factor=1.5)
    urls: list[str] = []
    page.on("request", lambda r: urls.append(r.url))
    page.set_content(mail().html)
    assert urls == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = axe.Axe().run(page).response["violations"]
    assert [
        (v["id"], [n["html"] for n in v["nodes"]]) for v in violations if v["id"] not in {"region", "landmark-one-main"}
    ] == []
    if os.environ.get(PICTURE) and look != "tiny" and mail is not sample_mail:
        name = "mail" if mail is owner_mail else "mail-summary"
        page.screenshot(path=IMAGES / f"{name}-{look}.png", full_page=True)
    page.close()
