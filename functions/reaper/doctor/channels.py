"""The channels that the mode needs: that each could deliver, without delivering anything, and that its secret can be read.

Each type of channel is examined by the module in EXAMINER_BY_TYPE, by a function `examine(spec, name, context)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from reaper import secret_store
from reaper.doctor.check import Check, of_error, ok, to_fix, unknown
from reaper.doctor.context import DoctorContext, Opened, advice_for
from reaper.errors import ReaperError
from reaper.notices.channels.delivery import with_deployment_channels
from reaper.notices.message import Audience

EXAMINER_BY_TYPE = {
    "smtp": "reaper.doctor.plain_channels",
    "webhook": "reaper.doctor.plain_channels",
    "apprise": "reaper.doctor.plain_channels",
    "folder": "reaper.doctor.plain_channels",
    "sns": "reaper.aws.doctor.channels",
    "ses": "reaper.aws.doctor.channels",
    "acs": "reaper.azure.doctor.channels",
}
ADD_CHANNEL = "Add a channel for owners under `channels:` in the policy, such as {type: ses, from: reaper@example.com}."
SECRET_ADVICE = "Check the secret's address in the policy, and REAPER_SECRETS."


def examine_channels(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """Every channel of the policy and of the deployment; in mode audit only the deployment's, which carry the functions' summary."""
    mode = context.settings.mode
    declared = list(opened.policy.policy.channels) if opened.policy and mode.writes else []
    try:
        specs = with_deployment_channels(declared, context.environ)
    except ReaperError as error:
        yield of_error("channels", error, "Correct the setting.")
        return
    if mode.writes and opened.policy is None:
        yield unknown("channels", "the policy can't be read, so its channels aren't known", "Correct the policy first.")
    elif not mode.writes and not specs:
        yield ok("channels", "mode audit needs none")
    elif not any(Audience.OWNERS in spec.readers for spec in specs) and mode.writes:
        yield to_fix("channels", "no channel is for owners, and every mode above audit needs one", ADD_CHANNEL)
    for spec in specs:
        yield from _examine(spec, f"channel.{spec.name or spec.type}", context)


def _examine(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """One channel, whatever is wrong with it: the next one is examined all the same."""
    try:
        yield from _examine_secret(spec, name, context)
        yield from import_module(EXAMINER_BY_TYPE[spec.type]).examine(spec, name, context)
    except ImportError as error:
        yield to_fix(name, f"its SDK isn't installed: {error}", "pip install 'ml-idle-reaper[aws,azure,chat]'")
    except ReaperError as error:
        yield of_error(name, error, advice_for(error, "", "Correct the channel in the policy."))


def _examine_secret(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    ref = getattr(spec, "secret", None)
    if not ref:
        return
    try:
        secret_store.read_for_policy(ref, context.environ)
    except ReaperError as error:
        yield of_error(name, error, advice_for(error, ref, SECRET_ADVICE))
        return
    yield ok(name, f"its secret {ref} can be read")
