"""The channels that a deployment brings: the SNS topic of template.yaml, the communication service of main.bicep.

They are used if the policy names no channel. If it does, they still carry the admins' summary, so that the address given at deployment
gets it, unless the policy has a channel of the same type for admins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reaper.errors import SettingsError
from reaper.notices.message import Audience
from reaper.policy.channel_settings import Acs, Sns

Spec = TypeVar("Spec", bound=BaseModel)


def with_deployment_channels(declared: Sequence[Any], environ: Mapping[str, str]) -> list[Any]:
    """The policy's channels, and as described above those of REAPER_EMAIL_ENDPOINT, _SENDER and _TO, and of REAPER_TOPIC.

    Raises SettingsError if a setting can't be used.
    """
    values = {name: value.strip() for name, value in environ.items() if value.strip()}
    channels: list[Acs | Sns] = [*_mail_channels(values), *_topic_channels(values)]
    if not declared:
        return list(channels)
    for_admins = {spec.type for spec in declared if Audience.ADMINS in spec.readers}
    return [*declared, *(_admins_only(spec) for spec in channels if spec.type not in for_admins)]


def topic_channel(arn: str) -> Sns:
    """The channel of REAPER_TOPIC, for admins. Raises SettingsError if that is no topic."""
    return _validated(Sns, {"type": "sns", "topic": arn, "for": [Audience.ADMINS]})


def mail_channel(endpoint: str, sender: str, to: Sequence[str]) -> Acs:
    """The channel of REAPER_EMAIL_ENDPOINT, _SENDER and _TO. Raises SettingsError if one of them can't be used."""
    return _validated(Acs, {"type": "acs", "endpoint": endpoint, "from": sender, "to": list(to)})


def _validated(model: type[Spec], values: Mapping[str, Any]) -> Spec:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"REAPER_EMAIL_… or REAPER_TOPIC: {where}: {first['msg']}") from None


def _admins_only(spec: Acs | Sns) -> Acs | Sns:
    """The same for admins only, under a name of its own in reports."""
    return spec.model_copy(update={"readers": [Audience.ADMINS], "name": f"{spec.type} of the deployment"})


def _mail_channels(values: Mapping[str, str]) -> list[Acs]:
    if "REAPER_EMAIL_ENDPOINT" not in values:
        return []
    to = [address.strip() for address in values.get("REAPER_EMAIL_TO", "").split(",") if address.strip()]
    return [mail_channel(values["REAPER_EMAIL_ENDPOINT"], values.get("REAPER_EMAIL_SENDER", ""), to)]


def _topic_channels(values: Mapping[str, str]) -> list[Sns]:
    return [topic_channel(values["REAPER_TOPIC"])] if "REAPER_TOPIC" in values else []
