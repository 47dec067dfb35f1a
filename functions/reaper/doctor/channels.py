"""The channels that the mode needs, and snooze links: whether each could deliver, without delivering anything, and its secret can be read."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from importlib import import_module
from typing import Any

from reaper import __version__
from reaper.doctor.check import Check, DoctorContext, advice_for, of_error, ok, to_fix, unknown
from reaper.doctor.deployment import folder_check
from reaper.errors import CloudError, ReaperError, Reason
from reaper.extras import install_command
from reaper.notices.channels.delivery import ChannelContext, tls_context, with_deployment_channels
from reaper.notices.channels.webhook import AnyStatus
from reaper.notices.message import Audience
from reaper.snooze.links import PAGE_PATH, LinkSigner, link_address, open_signer, sign_link
from reaper.stores import secret_store
from reaper.urls import split_address

CLOUD_BY_TYPE = {"sns": "aws", "ses": "aws", "acs": "azure"}
"""The cloud whose part of the doctor examines a type of channel."""
ADD_CHANNEL = "Add a channel for owners under `channels:` in the policy, such as {type: ses, from: reaper@example.com}."
CHANNEL_ADVICE = {
    "smtp": "Check host, port, tls, user and secret of {0.host}:{0.port} in the policy.",
    "webhook": "Check the webhook's url in the policy.",
    "apprise": "Check the Apprise address: https://github.com/caronc/apprise/wiki",
}
SECRET_ADVICE = "Check the secret's address in the policy, and REAPER_SECRETS."
KEYS_ADVICE = "Check REAPER_SNOOZE_KEYS, and whether this identity may read that secret."
DEPLOYMENT_ADVICE = "Set REAPER_DEPLOYMENT to the stack's ARN or the function app's resource ID."
PAGE_ADVICE = "Compare REAPER_SNOOZE_URL, REAPER_SNOOZE_KEYS and REAPER_DEPLOYMENT here with those of the page's function, and read its log."
LINK_VALID_FOR, TIMEOUT_S = timedelta(minutes=5), 10
NO_VISIT = "reaper-doctor".ljust(22, "-")
"""The ID in the link that the page is asked for. The ledger has no such visit, so the page says that it is gone."""


def examine_channels(context: DoctorContext) -> Iterator[Check]:
    """Every channel of the policy and of the deployment; in mode audit only the deployment's, which carry the functions' summary."""
    mode, policy = context.settings.mode, context.opened.policy.policy if context.opened.policy else None
    try:
        specs = with_deployment_channels(list(policy.channels) if policy and mode.writes else [], context.environ)
    except ReaperError as error:
        yield of_error("channels", error, "Correct the setting.")
        return
    if mode.writes and policy is None:
        yield unknown("channels", "the policy can't be read, so its channels aren't known", "Correct the policy first.")
    elif not mode.writes and not specs:
        yield ok("channels", "mode audit needs none")
    elif not any(Audience.OWNERS in spec.readers for spec in specs) and mode.writes:
        yield to_fix("channels", "no channel is for owners, and every mode above audit needs one", ADD_CHANNEL)
    owners = policy.owners if policy else None
    to = (owners and (owners.fallback or next((f"you@{domain}" for domain in owners.domains), None))) or "you@example.com"
    for spec in specs:
        yield from _examine(spec, f"channel.{spec.name or spec.type}", context, to)


def _examine(spec: Any, name: str, context: DoctorContext, to: str) -> Iterator[Check]:
    """One channel, whatever is wrong with it: the next one is examined all the same."""
    if ref := getattr(spec, "secret", None):
        try:
            secret_store.read_for_policy(ref, context.environ)
            yield ok(name, f"its secret {ref} can be read")
        except ReaperError as error:
            yield of_error(name, error, advice_for(error, ref, SECRET_ADVICE))
    try:
        if cloud := CLOUD_BY_TYPE.get(spec.type):
            yield from import_module(f"reaper.{cloud}.doctor.channels").examine(spec, name, context)
        else:
            yield _check(spec, name, context, to)
    except ImportError as error:
        yield to_fix(name, f"its SDK isn't installed: {error}", install_command("aws", "azure", "chat"))
    except ReaperError as error:
        advice = CHANNEL_ADVICE.get(spec.type, "Correct the channel in the policy, or its secret.").format(spec)
        yield of_error(name, error, advice_for(error, "", advice))


def channel_context(context: DoctorContext) -> ChannelContext:
    """What a channel is opened with."""
    return ChannelContext(read_secret=lambda ref: secret_store.read_for_policy(ref, context.environ), clock=context.clock)


def _check(spec: Any, name: str, context: DoctorContext, to: str) -> Check:
    """Without a message, which alone would show whether the service takes it. Raises ReaperError, and ImportError without its SDK."""
    opened = channel_context(context)
    match spec.type:
        case "smtp":
            from reaper.notices.channels import smtp

            return ok(name, f"{spec.host}:{spec.port} {smtp.Channel(spec, opened).say_hello()}")
        case "folder":
            return folder_check(name, spec.path)
        case "webhook":
            # Any reply to OPTIONS but a server's error shows that something listens.
            host, status = split_address(spec.url).netloc, http_reply(spec.url, "OPTIONS").status
            if status >= 500:
                return to_fix(name, f"{host} answered {status}", f"Check the service at {host}.")
            return ok(name, f"{host} answers ({status} to OPTIONS)")
        case "apprise":
            from reaper.notices.channels import apprise

            service = apprise.Channel(spec, opened).service_name()
            because = f"its address is valid ({service}); only a message would show whether it is accepted"
            return unknown(name, because, context.with_policy(f"reaper notify test --to {to}"))
        case _:
            from reaper.notices.channels import rooms  # which would take any request for a message

            host = split_address(rooms.Channel(spec, opened).url()).netloc
            return ok(name, f"its secret has the form of a webhook at {host}; reaper notify test sends a sample")


def examine_links(context: DoctorContext) -> Iterator[Check]:
    """If links are offered: the keys can be read, a link can be signed, the page accepts it, and the deployment is named."""
    environ, mode, signer = context.environ, context.settings.mode, None
    url, deployment = (environ.get(name, "").strip() for name in ("REAPER_SNOOZE_URL", "REAPER_DEPLOYMENT"))
    if not mode.writes or not url:
        yield ok(
            "links", "REAPER_SNOOZE_URL isn't set, so notices offer only the tag" if mode.writes else f"mode {mode} sends none"
        )
        return
    try:
        signer = open_signer(environ, context.clock())
        yield ok("links", "the keys can be read and sign links")
    except ReaperError as error:
        yield of_error("links", error, advice_for(error, environ.get("REAPER_SNOOZE_KEYS", ""), KEYS_ADVICE))
    if deployment:
        yield ok("deployment", f"links are signed for {deployment}")
    else:
        yield to_fix("deployment", "REAPER_DEPLOYMENT isn't set, so no deployed page accepts these links", DEPLOYMENT_ADVICE)
    yield _page_check(url, signer, context)


def _page_check(url: str, signer: LinkSigner | None, context: DoctorContext) -> Check:
    """The page is opened with a link to nothing, which only a page with the same keys and deployment accepts."""
    token = sign_link(NO_VISIT, context.clock() + LINK_VALID_FOR, signer.keys) if signer else ""
    try:
        status = http_reply(link_address(url, token) if token else f"{url.rstrip('/')}{PAGE_PATH}", "GET").status
    except CloudError as error:
        return of_error("links.page", error, PAGE_ADVICE)
    if status >= 500 or (signer and status != HTTPStatus.GONE):
        refused = "refused a link that was signed here" if status < 500 else "failed"
        return to_fix("links.page", f"{url} {refused} ({status})", PAGE_ADVICE)
    return ok("links.page", f"{url} accepts links that are signed here" if signer else f"{url} answers ({status})")


def http_reply(url: str, method: str) -> HTTPResponse:
    """The reply, already closed, to a request without a body and without credentials. Raises CloudError if nothing answers."""
    parts = split_address(url)
    if parts.scheme not in {"http", "https"}:
        raise CloudError(Reason.REFUSED, "http", f"{parts.netloc or 'the address'} isn't on the web")
    request = urllib.request.Request(url, method=method, headers={"User-Agent": f"ml-idle-reaper/{__version__} doctor"})
    opener = urllib.request.build_opener(AnyStatus, urllib.request.HTTPSHandler(context=tls_context()))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as reply:
            closed: HTTPResponse = reply
    except (OSError, HTTPException, ValueError) as error:
        raise CloudError(Reason.UNREACHABLE, "http", f"{parts.netloc}: {error}") from error
    return closed
