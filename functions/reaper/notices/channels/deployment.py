"""The channels that a deployment brings along: the SNS topic of template.yaml, the communication service of main.bicep.

They hold where the policy names no channel of its own. Where it does, they still carry the admins' summary, so that whoever gave an
address at deployment gets it, unless the policy has a channel of the same type for admins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from reaper.errors import SettingsError
from reaper.notices.message import Audience
from reaper.policy.channel_settings import Acs, Sns


def with_deployment_channels(declared: Sequence[Any], environ: Mapping[str, str]) -> list[Any]:
    """The policy's channels, and those of REAPER_EMAIL_ENDPOINT, _SENDER and _TO, and of REAPER_TOPIC as far as they hold.

    Raises SettingsError for a setting that makes no channel.
    """
    said = {name: value.strip() for name, value in environ.items() if value.strip()}
    try:
        brought: list[Acs | Sns] = [*_mail_channels(said), *_topic_channels(said)]
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"REAPER_EMAIL_… or REAPER_TOPIC: {where}: {first['msg']}") from None

    if not declared:
        return list(brought)
    served = {spec.type for spec in declared if Audience.ADMINS in spec.readers}
    return [*declared, *(_admins_only(spec) for spec in brought if spec.type not in served)]


def _admins_only(spec: Acs | Sns) -> Acs | Sns:
    """The same for admins only, under a name that tells it from the policy's own."""
    return spec.model_copy(update={"readers": [Audience.ADMINS], "name": f"{spec.type} of the deployment"})


def _mail_channels(said: Mapping[str, str]) -> list[Acs]:
    if "REAPER_EMAIL_ENDPOINT" not in said:
        return []
    to = [address.strip() for address in said.get("REAPER_EMAIL_TO", "").split(",") if address.strip()]
    sender = said.get("REAPER_EMAIL_SENDER", "")
    return [Acs.model_validate({"type": "acs", "endpoint": said["REAPER_EMAIL_ENDPOINT"], "from": sender, "to": to})]


def _topic_channels(said: Mapping[str, str]) -> list[Sns]:
    if "REAPER_TOPIC" not in said:
        return []
    return [Sns.model_validate({"type": "sns", "topic": said["REAPER_TOPIC"], "for": [Audience.ADMINS]})]
