"""SES and SNS, examined without sending anything: the sender's identity, SES's sandbox, and who confirmed the topic's subscriptions.

https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_GetEmailIdentity.html and API_GetAccount.html;
https://docs.aws.amazon.com/sns/latest/api/API_ListSubscriptionsByTopic.html
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reaper.aws.doctor.checks import own_rights, own_session
from reaper.aws.session import CloudSession
from reaper.doctor.check import Check, CheckStatus, DoctorContext, of_error, ok, to_fix, unknown
from reaper.errors import CloudError, Reason
from reaper.text import count_noun, first_few

PENDING = "PendingConfirmation"
"""The ARN of a subscription that isn't confirmed."""
SANDBOX_FIX = (
    "aws sesv2 put-account-details --production-access-enabled --mail-type TRANSACTIONAL --website-url https://YOUR.SITE"
)


def examine(spec: Any, name: str, context: DoctorContext) -> Iterator[Check]:
    """Whether the channel could deliver."""
    if spec.type == "ses":
        cloud = own_session(spec.region)
        yield _identity_check(cloud, name, spec.sender)
        yield _account_check(cloud, name)
        account = str(cloud.call("sts", "GetCallerIdentity", "Account")["Account"])
        arn = f"arn:{cloud.partition}:ses:{cloud.region}:{account}:identity/{spec.sender}"
        domain_arn = arn.replace(f"/{spec.sender}", f"/{spec.sender.rpartition('@')[2]}")
        yield _send_check(name, "ses:SendEmail", (arn, domain_arn), {"ses:FromAddress": spec.sender}, cloud.region)
        return
    region = spec.topic.split(":")[3]
    cloud = own_session(region)
    try:
        rows = list(cloud.paged_rows("sns", "ListSubscriptionsByTopic", "Subscriptions", "SubscriptionArn", TopicArn=spec.topic))
    except CloudError as error:
        yield _unread(name, error, f"Check the topic's ARN: aws sns get-topic-attributes --topic-arn {spec.topic}")
    else:
        yield _subscription_check(name, spec.topic, rows)
    yield _send_check(name, "sns:Publish", (spec.topic,), {}, region)


def _identity_check(cloud: CloudSession, name: str, sender: str) -> Check:
    """The sender's own identity, else that of its domain."""
    fix = create = f"aws sesv2 create-email-identity --email-identity {shlex.quote(sender)} --region {cloud.region}"
    for identity in (sender, sender.rpartition("@")[2]):
        try:
            reply = cloud.call("sesv2", "GetEmailIdentity", "VerifiedForSendingStatus", EmailIdentity=identity)
        except CloudError as error:
            if error.reason is Reason.GONE or "NotFoundException:" in str(error):
                continue
            return _unread(name, error, create)
        if reply["VerifiedForSendingStatus"]:
            return ok(name, f"the identity {identity} is verified in {cloud.region}")
        if fix == create:
            fix = _confirmation(identity, create, cloud.region)
    return to_fix(name, f"no verified identity in {cloud.region} covers {sender}", fix)


def _confirmation(identity: str, create: str, region: str) -> str:
    """What an existing identity waits for. AWS refuses to create it a second time."""
    place = f"--email-identity {shlex.quote(identity)} --region {region}"
    if "@" in identity:
        return (
            f"Confirm in the mail from AWS to {identity}. To send it again: aws sesv2 delete-email-identity {place} && {create}"
        )
    return f"Publish the DKIM records of {identity}. They are in: aws sesv2 get-email-identity {place} --query DkimAttributes"


def _account_check(cloud: CloudSession, name: str) -> Check:
    region = f" --region {cloud.region}"
    try:
        reply = cloud.call("sesv2", "GetAccount", "SendingEnabled")
    except CloudError as error:
        return _unread(name, error, f"aws sesv2 get-account{region}")
    if not reply.get("ProductionAccessEnabled"):
        because = f"SES is in its sandbox in {cloud.region}: it delivers to verified addresses only"
        return to_fix(name, because, SANDBOX_FIX + region)
    if not reply["SendingEnabled"]:
        resume = f"aws sesv2 put-account-sending-attributes --sending-enabled{region}"
        return to_fix(name, f"SES sends nothing in {cloud.region}: sending is paused", resume)
    return ok(name, f"SES has production access in {cloud.region}")


def _subscription_check(name: str, topic: str, rows: Sequence[Mapping[str, Any]]) -> Check:
    """An address that hasn't confirmed gets nothing; after two days SNS forgets it."""
    pending = [row for row in rows if row["SubscriptionArn"] == PENDING]
    if pending:
        names = first_few([str(row.get("Endpoint") or "an endpoint") for row in pending])
        because = f"{len(pending)} of {len(rows)} subscriptions aren't confirmed and get nothing: {names}"
        again = _subscribe_line(topic, str(pending[0].get("Protocol") or "email"), str(pending[0].get("Endpoint") or "ENDPOINT"))
        return to_fix(name, because, f"Confirm in the message from AWS. To send it again: {again}")
    if not rows:
        return to_fix(name, f"nothing is subscribed to {topic}", _subscribe_line(topic, "email", "you@example.com"))
    return ok(name, f"{topic} has {count_noun(len(rows), 'confirmed subscription')}")


def _subscribe_line(topic: str, protocol: str, endpoint: str) -> str:
    where = f"--notification-endpoint {shlex.quote(endpoint)} --region {topic.split(':')[3]}"
    return f"aws sns subscribe --topic-arn {topic} --protocol {shlex.quote(protocol)} {where}"


def _send_check(name: str, permission: str, resources: tuple[str, ...], request: dict[str, str], region: str) -> Check:
    """Whether this identity may send, by a simulation for each resource: one that allows it is enough."""
    results = [right for resource in resources for right in own_rights(permission, resource, request, region)]
    best = min(results, key=lambda right: (CheckStatus.OK, CheckStatus.UNKNOWN, CheckStatus.FIX).index(right.status))
    if best.status is CheckStatus.OK:
        return ok(name, f"this identity may use {permission}")
    check = to_fix if best.status is CheckStatus.FIX else unknown
    return check(name, f"{permission}: {best.because}", best.fix, best.missing)


def _unread(name: str, error: CloudError, otherwise: str) -> Check:
    """A sweep doesn't need to read this, so a refusal is no fault of the deployment's, and nothing is granted because of it."""
    if error.reason is Reason.DENIED and error.missing:
        return unknown(name, f"{error}; only the doctor needs that permission", missing=error.missing)
    return of_error(name, error, otherwise)
