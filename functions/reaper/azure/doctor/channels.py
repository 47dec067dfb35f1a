"""Azure Communication Services, examined without sending anything: it is asked for the state of a mail that was never sent.

That takes the same identity or key as sending does. https://learn.microsoft.com/rest/api/communication/email/email/get-send-result
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from azure.communication.email import EmailClient
from azure.core.exceptions import AzureError
from azure.core.rest import HttpRequest

from reaper.azure.channels import acs
from reaper.doctor.channels import channel_context
from reaper.doctor.check import Check, DoctorContext, advice_for, of_error, ok, to_fix
from reaper.errors import CloudError, Reason

API_VERSION = "2023-03-31"
ADVICE = "Check the channel's endpoint and secret in the policy."


def examine(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """Whether the service answers this identity, or this key."""
    channel = acs.Channel(spec, channel_context(context))
    request = HttpRequest("GET", f"/emails/operations/{uuid4()}?api-version={API_VERSION}")
    try:
        with EmailClient(spec.endpoint, channel.credential(), **acs.TIMEOUTS) as client:
            status = client.send_request(request).status_code
    except (AzureError, binascii.Error) as error:
        yield of_error(name, failed := acs.error_from_sdk(error), advice_for(failed, spec.endpoint, ADVICE))
        return
    if status in {401, 403}:
        because = f"{spec.endpoint} refuses this identity or key ({status})"
        denied = CloudError(Reason.DENIED, acs.OPERATION, because, missing=acs.OPERATION)
        yield to_fix(name, because, advice_for(denied, spec.endpoint, ADVICE), acs.OPERATION)
    elif status >= 500:
        yield to_fix(name, f"{spec.endpoint} answered {status}", "Check the service's health in the Azure portal.")
    else:
        yield ok(name, f"{spec.endpoint} answers and accepts this identity or key")
