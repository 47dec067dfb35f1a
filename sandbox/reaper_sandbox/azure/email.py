"""Azure Communication Services email: a mail is accepted, then its operation says Succeeded. `world.mails` keeps them.

https://learn.microsoft.com/rest/api/communication/email/email/send
"""

from __future__ import annotations

from uuid import NAMESPACE_URL, uuid5

from reaper_sandbox.azure import identity
from reaper_sandbox.azure.moment import zulu
from reaper_sandbox.azure.refusal import bad, refused
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.route import route
from reaper_sandbox.azure.world import World


def send(world: World, request: Request) -> Reply:
    """202 with Operation-Location. Sender, a recipient, a subject and a body are required."""
    mail = request.body if isinstance(request.body, dict) else {}
    content = mail.get("content") or {}
    people = mail.get("recipients") or {}
    if not mail.get("senderAddress") or not content.get("subject") or not (content.get("plainText") or content.get("html")):
        raise bad("senderAddress, content.subject and a content are required.", "InvalidRequest")
    addressed = [one for key in ("to", "cc", "bcc") for one in people.get(key) or ()]
    if not addressed or any("@" not in str(one.get("address")) for one in addressed):
        raise bad("At least one valid recipient is required.", "InvalidRequest")
    name = str(uuid5(NAMESPACE_URL, f"mail/{len(world.mails)}"))
    world.mails.append({**mail, "id": name, "sentAt": zulu(world.now)})
    place = f"{world.url}/emails/operations/{name}?api-version={request.api_version}"
    return Reply(status=202, body={"id": name, "status": "Running"}, headers={"Operation-Location": place, "Retry-After": "0"})


def status(world: World, request: Request) -> Reply:
    """The state of a mail that was accepted."""
    name = request.names["operation"]
    if name not in {mail["id"] for mail in world.mails}:
        raise refused(404, "NotFound", f"There is no operation {name}.")
    return Reply(body={"id": name, "status": "Succeeded", "error": None})


VERSIONS = ("2023-03-31", "2024-07-01-preview", "2025-01-15-preview", "2025-09-01")
ROUTES = (
    route("POST", "/emails:send", send, "Microsoft.Communication/emails/action", VERSIONS, identity.MAIL),
    route(
        "GET", "/emails/operations/(?P<operation>[^/]+)", status, "Microsoft.Communication/emails/action", VERSIONS, identity.MAIL
    ),
)
