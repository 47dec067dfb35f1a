"""Snooze links: the keys can be read, a link can be signed, the page accepts it, and the deployment is named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from reaper.doctor import reach
from reaper.doctor.check import Check, of_error, ok, to_fix
from reaper.doctor.context import DoctorContext, advice_for
from reaper.errors import CloudError, ReaperError
from reaper.snooze import links
from reaper.snooze.links import LinkSigner, link_address
from reaper.snooze.request import PAGE_PATH
from reaper.snooze.token import SnoozeLink, sign_link

KEYS_ADVICE = "Check REAPER_SNOOZE_KEYS, and whether this identity may read that secret."
DEPLOYMENT_ADVICE = "Set REAPER_DEPLOYMENT to the stack's ARN or the function app's resource ID."
PAGE_ADVICE = "Compare REAPER_SNOOZE_URL, REAPER_SNOOZE_KEYS and REAPER_DEPLOYMENT here with those of the page's function, and read its log."
LINK_VALID_FOR = timedelta(minutes=5)
NO_RESOURCE = "reaper-doctor"
"""The resource of the link that the page is asked for. Opening a link changes nothing, and none is ever sent."""


def examine_links(context: DoctorContext) -> Iterator[Check]:
    """The keys and the page, if links are offered."""
    environ, mode = context.environ, context.settings.mode
    url = environ.get("REAPER_SNOOZE_URL", "").strip()
    if not mode.writes or not url:
        because = f"mode {mode} sends none" if not mode.writes else "REAPER_SNOOZE_URL isn't set, so notices offer only the tag"
        yield ok("links", because)
        return
    signer = None
    try:
        signer = links.open_signer(environ, context.clock())
        yield ok("links", "the keys can be read and sign links")
    except ReaperError as error:
        yield of_error("links", error, advice_for(error, environ.get("REAPER_SNOOZE_KEYS", ""), KEYS_ADVICE))
    yield _deployment_check(environ.get("REAPER_DEPLOYMENT", "").strip())
    yield _page_check(url, signer, context)


def _deployment_check(deployment: str) -> Check:
    if deployment:
        return ok("deployment", f"links are signed for {deployment}")
    return to_fix(
        "deployment", "REAPER_DEPLOYMENT isn't set, so any deployment with the same keys accepts these links", DEPLOYMENT_ADVICE
    )


def _page_check(url: str, signer: LinkSigner | None, context: DoctorContext) -> Check:
    """The page is opened with a link to nothing, which only a page with the same keys and deployment accepts."""
    address = link_address(url, _sample_token(signer, context)) if signer else f"{url.rstrip('/')}{PAGE_PATH}"
    try:
        status = reach.http_reply(address, "GET").status
    except CloudError as error:
        return of_error("links.page", error, PAGE_ADVICE)
    if status >= 500 or (signer and status != 200):
        refused = "refused a link that was signed here" if status < 500 else "failed"
        return to_fix("links.page", f"{url} {refused} ({status})", PAGE_ADVICE)
    return ok("links.page", f"{url} accepts links that are signed here" if signer else f"{url} answers ({status})")


def _sample_token(signer: LinkSigner, context: DoctorContext) -> str:
    link = SnoozeLink(
        resource=NO_RESOURCE,
        expires=context.clock() + LINK_VALID_FOR,
        max_days=1,
        kind="doctor",
        name=NO_RESOURCE,
        where="nowhere",
        owner="",
        usd_per_hour=None,
        idle_since=None,
    )
    return sign_link(link, signer.keys)
