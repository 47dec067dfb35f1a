"""The keep-link's page in a real browser: clicked through, measured for accessibility, and pictured for the docs."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.memory_ledger import InMemoryLedger
from fakes.records import a_record, an_act
from reaper.ledger.rows import Visit, VisitResource
from reaper.model import Result, State
from reaper.record import Record, Snooze
from reaper.snooze.handler import handle_request
from reaper.snooze.links import Keys, link_address, sign_link
from reaper.snooze.pages import Reply, Request, snooze_end
from reaper.snooze.pages import SnoozeContext as Desks

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page was NOT tried in a browser")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed: NOT checked for axe"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the page was NOT tried in a browser")

IMAGES = Path(__file__).parents[2] / "docs/images"
KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
ID = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn-scoring-staging"
CHURN = VisitResource(
    id=ID,
    kind="sagemaker-endpoint",
    name="churn-scoring-staging",
    where="AWS account 123456789012, us-east-1",
    max_days=30,
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY - 4 * HOUR,
)
DANA = VisitResource(
    id="/subscriptions/0/computes/dana-gpu",
    kind="azureml-compute-instance",
    name="dana-gpu",
    where="Azure subscription 11111111-2222-3333-4444-555555555555, westeurope",
    max_days=7,
    usd_per_hour=3.06,
    idle_since=NOW - 4 * DAY,
)
DRAFT = VisitResource(
    id="arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/draft-translator",
    kind="sagemaker-notebook",
    name="draft-translator",
    where="AWS account 123456789012, us-east-1",
    max_days=30,
    idle_since=NOW - 2 * DAY,
)
ONE = Visit(
    id="one-mail-one-visit-one",
    address="jo.martin@example.com",
    is_owner=True,
    sent_at=NOW - HOUR,
    expires=NOW + 14 * DAY,
    tz="UTC",
    resources=(CHURN,),
)
THREE = replace(ONE, id="three-mail-three-visit", resources=(CHURN, DANA, DRAFT), tz="Europe/Berlin")


SCALED_IN = "it is scaling in: AllTraffic from 3 to 1; the autoscaling minimum was lowered first"


class Desk(BaseHTTPRequestHandler):
    """The real `handle_request` behind a plain HTTP server."""

    server: Site

    def do_GET(self) -> None:
        self._answer(b"")

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["content-length"])))

    def _answer(self, body: bytes) -> None:
        url = urlsplit(self.path)
        self.server.calls.append(f"{self.command} {url.path}")
        request = Request(method=self.command, path=url.path, query=url.query, body=body, source_ip=self.client_address[0])
        reply: Reply = handle_request(
            request, Desks(ledger=lambda: self.server.ledger, keys=lambda wanted: KEYS, now=self.server.now)
        )
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body.encode())

    def log_message(self, *args: object) -> None:
        """Nothing: the test looks at `asked`."""


class Site(ThreadingHTTPServer):
    """One resource whose owner has a notice, and a clock that stands still."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.now = NOW
        self.calls: list[str] = []
        self.ledger = InMemoryLedger()
        self.ledger.write_record(ID, a_record(idle_since=CHURN.idle_since, warned_at=NOW - HOUR, to=ONE.address), 0, NOW)

    def link(self, visit: Visit = ONE, row: int = 0) -> str:
        if self.ledger.visit(visit.id, NOW) is None:
            self.ledger.add_visit(visit)
        base = f"http://127.0.0.1:{self.server_port}"
        return link_address(base, sign_link(visit.id, visit.expires, KEYS)) + (f"&r={row}" if row else "")

    def happens(self) -> None:
        """One is scaled in, one in part, and one is in use again, a minute after the mail."""
        at, part = THREE.sent_at + timedelta(minutes=1), "1 of 2 variants"
        for each, fields in ((CHURN, {}), (DANA, {"part": part}), (DRAFT, {"action": None})):
            act = an_act(
                at=at, result=Result.DONE, because=SCALED_IN, notified_at=at, **{"id": each.id, "name": each.name, **fields}
            )
            known = self.ledger.record(each.id, self.now)
            used = Record(state=State.ACTIVE, state_at=at)
            self.ledger.write_record(each.id, Record(act=act) if act.action else used, known.version, self.now)

    def snooze(self, resource: VisitResource = CHURN) -> Snooze:
        return self.ledger.snooze(resource.id, self.now)


@pytest.fixture
def site() -> Iterator[Site]:
    new_site = Site()
    threading.Thread(target=new_site.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield new_site
    new_site.shutdown()
    new_site.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield chromium
        chromium.close()


@pytest.fixture(params=[pytest.param(True, id="with JavaScript"), pytest.param(False, id="without JavaScript")])
def tab(browser, request: pytest.FixtureRequest):
    context = browser.new_context(java_script_enabled=request.param)
    yield context.new_page()
    context.close()


def complaints(tab) -> list[str]:
    """What axe finds wrong, in words."""
    violations = axe.Axe().run(tab).response["violations"]
    return [f"{v['id']}: {v['help']}: {v['nodes'][0]['html']}" for v in violations]


def picture(tab, name: str) -> None:
    """For the docs, only when asked for: pixels differ from machine to machine."""
    if os.environ.get("PICTURES"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=IMAGES / f"snooze-{name}.png", full_page=True)


def test_two_clicks_snooze_a_resource(site: Site, tab):
    tab.goto(site.link())
    assert site.snooze().until is None
    tab.get_by_role("button", name="Keep it").click()
    assert "until Tue 24 Nov 2026, 11:00 UTC" in tab.get_by_role("status").inner_text()
    assert site.snooze().until == snooze_end(NOW, 3)
    assert "t=" not in tab.url, "the token is out of the address again"


def test_choice_reason_and_name_are_saved_and_changeable(site: Site, tab):
    tab.goto(site.link())
    tab.get_by_label("1 week").check()
    tab.get_by_label("Why").fill("Demo für Ōsaka <script>")
    tab.get_by_label("Your name").fill("Jo")
    tab.get_by_role("button", name="Keep it").click()
    snooze = site.snooze()
    assert (snooze.until, snooze.reason) == (snooze_end(NOW, 7), "Demo für Ōsaka <script>")
    assert snooze.by == "Jo (jo.martin@example.com)"
    tab.get_by_role("link", name="Choose again").click()
    assert "Snoozed until Sat 28 Nov 2026, 11:00 UTC" in tab.inner_text("main")
    tab.get_by_label("1 day").check()
    tab.get_by_label("Shorten the current snooze").check()
    tab.get_by_role("button", name="Keep it").click()
    assert site.snooze().until == snooze_end(NOW, 1)


def test_the_snooze_form_works_by_keyboard(site: Site, tab):
    tab.goto(site.link())
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    for _ in range(3):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.get_by_role("status").wait_for()
    assert site.snooze().until == snooze_end(NOW, 7)


def test_reloading_the_snoozed_page_changes_nothing(site: Site, tab):
    tab.goto(site.link())
    tab.get_by_role("button", name="Keep it").click()
    tab.get_by_role("status").wait_for()
    before = site.snooze()
    tab.reload()
    assert site.calls.count("POST /keep") == 2
    assert site.snooze() == before


def test_an_expired_link_shows_an_error_page(site: Site, tab):
    site.now = NOW + timedelta(days=15)
    reply = tab.goto(site.link())
    assert reply.status == 403
    assert "This link isn't valid" in tab.inner_text("h1")
    assert tab.get_by_role("button").count() == 0


def test_the_snooze_page_obeys_its_security_policy(site: Site, browser):
    context = browser.new_context()
    tab = context.new_page()
    messages: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.goto(site.link())
    card = tab.locator("main").evaluate("e => getComputedStyle(e).maxWidth")
    tab.get_by_role("button", name="Keep it").click()
    tab.get_by_role("status").wait_for()
    assert (messages, card) == ([], "560px"), "the style passed the content security policy"
    assert site.calls == ["GET /keep", "POST /keep"], "nothing else was fetched"
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [pytest.param(1000, id="wide"), pytest.param(320, id="narrow")])
def test_snooze_pages_have_no_axe_violation_or_side_scroll(site: Site, browser, scheme: str, width: int):
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 700}, device_scale_factor=2 if width == 320 else 1
    )
    tab = context.new_page()
    name = "narrow" if width == 320 else scheme
    tab.goto(site.link())
    _is_good(tab, "")
    tab.goto(site.link(THREE))
    _is_good(tab, name if width != 320 or scheme == "light" else "")
    tab.get_by_label("Why").fill("Quarterly back-test runs on Monday")
    tab.get_by_role("button", name="Keep selected").click()
    _is_good(tab, f"kept-{name}" if width != 320 else "")
    tab.get_by_role("link", name="Choose again").click()
    _is_good(tab, "")
    tab.get_by_role("button", name="Not mine").click()
    _is_good(tab, "")
    tab.goto(site.link() + "x")
    _is_good(tab, "refused-light" if name == "light" else "")
    site.happens()
    tab.goto(site.link(THREE))
    _is_good(tab, "")
    tab.get_by_role("checkbox", name="dana-gpu").check()
    tab.get_by_role("button", name="Keep selected").click()
    _is_good(tab, "")
    tab.goto(site.link())
    _is_good(tab, "")
    context.close()


def _is_good(tab, name: str) -> None:
    if name:
        picture(tab, name)
    assert complaints(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_all_of_a_mail_is_kept_with_two_clicks(site: Site, tab):
    tab.goto(site.link(THREE))
    assert "costs at least $322 for all 3" in tab.inner_text("main")
    tab.get_by_label("1 week").check()
    tab.get_by_role("button", name="Keep selected").click()
    assert "3 resources are snoozed" in tab.inner_text("h1")
    assert tab.get_by_role("status").inner_text().count("until Sat 28 Nov 2026, 12:00 Europe/Berlin") == 3
    assert {site.snooze(each).until for each in THREE.resources} == {snooze_end(NOW, 7)}


def test_a_rows_own_link_preselects_it_and_others_can_be_added(site: Site, tab):
    tab.goto(site.link(THREE, row=2))
    assert [box.is_checked() for box in tab.get_by_role("checkbox").all()] == [False, True, False]
    tab.get_by_role("checkbox", name="draft-translator").check()
    tab.get_by_role("button", name="Keep selected").click()
    tab.get_by_role("status").wait_for()
    assert [site.snooze(each).until is not None for each in THREE.resources] == [False, True, True]


def test_nothing_chosen_asks_for_a_choice(site: Site, tab):
    tab.goto(site.link(THREE, row=1))
    tab.get_by_role("checkbox", name="churn-scoring-staging").uncheck()
    tab.get_by_role("button", name="Keep selected").click()
    assert "Choose at least one resource" in tab.get_by_role("alert").inner_text()
    assert site.snooze().until is None


def test_not_mine_is_said_for_the_selected_and_taken_back(site: Site, tab):
    tab.goto(site.link(THREE))
    assert "It doesn't stop or delete anything" in tab.inner_text("main")
    tab.get_by_role("checkbox", name="dana-gpu").uncheck()
    tab.get_by_role("button", name="Not mine").click()
    assert "2 resources are marked as not yours" in tab.inner_text("h1")
    assert [site.snooze(each).disowned_by for each in THREE.resources] == [ONE.address, None, ONE.address]
    assert site.snooze().until is None
    tab.get_by_role("link", name="Choose again").click()
    assert tab.inner_text("main").count("Marked “not mine” by jo.martin@example.com") == 2
    tab.get_by_role("button", name="Keep selected").click()
    tab.get_by_role("status").wait_for()
    assert {site.snooze(each).disowned_by for each in THREE.resources} == {None}


def test_what_was_done_since_the_mail_is_not_preselected(site: Site, tab):
    site.happens()
    tab.goto(site.link(THREE))
    assert "Scaled in on Sat 21 Nov 2026, 10:18 Europe/Berlin, from 3 instances to 1" in tab.inner_text("main")
    assert [box.is_checked() for box in tab.get_by_role("checkbox").all()] == [False, True]
    tab.get_by_role("button", name="Keep selected").click()
    assert "“draft-translator” is snoozed" in tab.inner_text("h1")
    assert [site.snooze(each).until is not None for each in THREE.resources] == [False, False, True]
    tab.goto(site.link())
    assert "Nothing is left to keep" in tab.inner_text("h1")
    assert tab.get_by_role("button").count() == 0


def test_a_form_on_another_site_changes_nothing(site: Site, browser):
    """It knows no token, and a link that a browser fetches ahead is only opened."""
    context = browser.new_context()
    tab = context.new_page()
    url = site.link(THREE)
    page = url.partition("?")[0]
    tab.set_content(f"""<link rel="prefetch" href="{url}"><form method="post" action="{page}">
        <input name="r" value="1"><input name="days" value="7"><button>Win</button></form>""")
    tab.get_by_role("button", name="Win").click()
    assert "This link isn't valid" in tab.inner_text("h1")
    tab.set_content(f'<form method="post" action="{url}"><input name="do" value="disown"><button>Win</button></form>')
    tab.get_by_role("button", name="Win").click()
    assert "This link isn't valid" in tab.inner_text("h1")
    assert (site.snooze().until, site.snooze().disowned_by) == (None, None)
    context.close()


def test_sixty_resources_fit_a_phone(site: Site, browser):
    many = tuple(replace(CHURN, id=f"{ID}-{n}", name=f"{'churn-scoring-' * 7}{n}") for n in range(60))
    context = browser.new_context(viewport={"width": 320, "height": 700}, java_script_enabled=False)
    tab = context.new_page()
    tab.goto(site.link(replace(THREE, id="sixty-mail-sixty-visit", resources=many)))
    tab.get_by_role("button", name="Keep selected").click()
    assert "60 resources are snoozed" in tab.inner_text("h1")
    assert {site.snooze(each).until for each in many} == {snooze_end(NOW, 3)}
    context.close()


def test_hostile_names_do_not_run_or_widen_the_snooze_page(site: Site, browser):
    context = browser.new_context(viewport={"width": 320, "height": 800})
    tab = context.new_page()
    opened: list[str] = []
    tab.on("dialog", lambda dialog: opened.append(dialog.message))
    names = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "x" * 10_000,
        "\u202egnp.exe",
        "' onfocus=alert(1) autofocus x='",
    ]
    hostile = tuple(replace(CHURN, id=f"{ID}-{n}", name=name, where=name, kind=name) for n, name in enumerate(names))
    for visit in (replace(THREE, resources=hostile, address=names[4]), replace(ONE, resources=hostile[:1], address=names[0])):
        tab.goto(site.link(visit))
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.get_by_role("button", name="Keep").click()
        tab.get_by_role("status").wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened == []
    context.close()
