"""What people read in the mails: what is true in the run mode, how to stop it now, whom to ask, and times with their zone."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import NOW, resource, rule
from fakes.mails import compose_summary, notice_item, owner_notices
from fakes.sample_findings import OWNERS, finding, occasion, only, report
from reaper import registry
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.aws.kinds.sagemaker_inference_component import ComponentDetails
from reaper.aws.kinds.sagemaker_studio_app import StudioAppDetails
from reaper.calendars import office_hours
from reaper.case import Blocked, Case
from reaper.cli import sample
from reaper.finding import Finding, Outcome, Step
from reaper.model import Ceiling, Confidence, Mode, Resource, Result, State, StepName, Target, Verdict
from reaper.notices import item, owner_notice
from reaper.notices.admin_summary import admin_summary
from reaper.notices.channels.smtp import make_mail
from reaper.notices.message import ABOUT, MAX_SUBJECT
from reaper.policy.schema import Owners

BERLIN = replace(office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin"), by_rule=True)
AZURE = Target(cloud="azure", account="11111111-2222-3333-4444-555555555555")
SPACE = f"/subscriptions/{AZURE.account}/resourceGroups/vision/providers/Microsoft.MachineLearningServices/workspaces/dev"
PLACES = {"REAPER_LEDGER": "dynamodb://reaper-ledger", "REAPER_MANIFESTS": "s3://bucket/manifests"}


def subject(*findings: Finding, **fields: Any) -> str:
    return only(owner_notices(list(findings), occasion(**fields))).subject


def text(*findings: Finding, **fields: Any) -> str:
    return only(owner_notices(list(findings), occasion(**fields))).text


# --- only what is true in the run mode


@pytest.mark.parametrize(
    ("mode", "ending", "never"),
    [
        pytest.param(
            Mode.NOTIFY, "costs $48.00 a day until you stop it: churn", ("will be scaled", "may be scaled"), id="notify"
        ),
        pytest.param(Mode.ANNOUNCE, "; it may be scaled in from Tue 24 Nov: churn", ("will be scaled",), id="announce"),
        pytest.param(Mode.ENFORCE, "; it will be scaled in from Tue 24 Nov: churn", ("may be scaled",), id="enforce"),
    ],
)
def test_a_notice_promises_no_more_than_its_run_mode_does(mode: Mode, ending: str, never: tuple[str, ...]):
    message = only(owner_notices([finding()], occasion(mode=mode)))
    assert message.subject.endswith(ending)
    for words in never:
        assert words not in message.subject + message.text + message.html


def test_the_rest_of_an_action_only_may_follow_in_announce():
    outcome = Outcome(result=Result.DONE, because="it is going", begun=True, part_done="1 of 2 variants")
    part = finding(move=StepName.STOP, outcome=outcome)
    assert "The rest may be scaled in on or after Tue 24 Nov 2026" in text(part, mode=Mode.ANNOUNCE)
    assert "The rest will be scaled in on or after Tue 24 Nov 2026" in text(part, mode=Mode.ENFORCE)


def test_a_partial_actions_subject_says_when_the_rest_comes():
    outcome = Outcome(result=Result.DONE, because="it is going", begun=True, part_done="1 of 2 variants")
    part = finding(move=StepName.STOP, outcome=outcome)
    head = "1 idle ML resource was partly scaled in, saving $24.00 a day"
    assert subject(part) == f"{head}; the rest will be scaled in from Tue 24 Nov: churn"
    assert subject(part, mode=Mode.NOTIFY) == f"{head}: churn"


def test_a_blocked_action_names_its_reason():
    barred = finding(acts={StepName.STOP: Blocked(because="its status is Updating")})
    assert "It can't be stopped automatically because its status is Updating. It keeps costing money" in text(barred)
    assert "until you stop it" in subject(barred)


def test_a_subject_without_an_owner_never_says_you():
    assert subject(finding(address=None, rule=rule(action=Ceiling.NOTIFY))) == (
        "1 idle ML resource with no known owner costs $48.00 a day until stopped: churn"
    )


def test_an_unpriced_resource_has_a_consequence_in_its_subject_too():
    assert subject(finding(usd=None), mode=Mode.NOTIFY) == "1 idle ML resource, price unknown; it runs until you stop it: churn"


def test_a_stopped_resource_shows_a_saving_not_a_cost():
    item = finding(move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it was scaled in", begun=True))
    wording = text(item)
    assert "Saving: $24.00 a day, it cost $48.00 a day" in wording
    assert "Cost:" not in wording
    lost = replace(
        item, outcome=Outcome(result=Result.FAILED, error="it isn't known whether the action was carried out", begun=True)
    )
    assert "Cost: $48.00 a day, if it still runs" in text(lost)
    summary = admin_summary(report(item), occasion(), frozenset())
    assert summary is not None
    assert "It was scaled in. It saves $730 a month." in summary.text


# --- times


def test_times_are_in_the_office_hours_zone_else_utc():
    hours = finding("nb", rule=rule(hours=replace(BERLIN, by_rule=False)))
    both = [hours, finding("other")]
    message = only(owner_notices(both, occasion(now=NOW.replace(hour=23, minute=30))))
    for body in (message.text, message.html):
        assert "Idle since" in body
        assert "00:30 Europe/Berlin" in body
        assert "23:30 UTC" in body


def test_without_office_hours_times_are_in_the_policys_zone():
    """Those in its reasons too. Admins read all times there, but dates of office hours stay in theirs."""
    owners = Owners(domains=["example.com"], fallback="ml-admins@example.com", tz="Asia/Tokyo")
    because = "running since 2026-11-12 18:30 UTC, no metric shows its use"
    evening = occasion(owners=owners, now=NOW.replace(hour=23, minute=30))
    alone, office = finding(because=because), finding("nb", rule=rule(hours=BERLIN))
    message = only(owner_notices([alone, office], evening))
    for body in (message.text, message.html):
        assert "running since Fri 13 Nov 2026, 03:30 Asia/Tokyo" in body
        assert "08:30 Asia/Tokyo" in body
        assert "00:30 Europe/Berlin" in body
        assert "UTC" not in body
    held = finding("held", step=Step(name=StepName.HOLD, because="on hold since 2026-11-12 18:30 UTC"))
    summary = compose_summary(report(held, office), evening)
    assert "On hold since Fri 13 Nov 2026, 03:30 Asia/Tokyo." in summary.text
    assert not re.search("UTC|Berlin", summary.text + summary.html)


def test_a_time_that_is_none_stays_as_it_was_written():
    assert "on 2026-02-31 25:61 UTC" in text(finding(because="snoozed by dana: on 2026-02-31 25:61 UTC"))


def test_a_subjects_day_is_in_the_office_hours_zone():
    late = NOW.replace(hour=23, minute=30)
    assert "from Tue 24 Nov" in subject(finding(), now=late)
    assert "from Wed 25 Nov" in subject(finding(rule=rule(hours=replace(BERLIN, days=frozenset(), by_rule=False))), now=late)


def test_an_enrolment_has_its_first_day_in_the_subject():
    new = finding("nb", rule=rule(hours=BERLIN), acts={StepName.STOP: None, StepName.START: None})
    message = only(owner_notices([new], occasion()))
    assert message.subject == "1 ML resource will be scaled in outside office hours from Tue 24 Nov: nb"
    assert "From Tue 24 Nov 2026, 21:00 Europe/Berlin on, it will be scaled in outside its office hours" in message.text
    mixed = only(owner_notices([new, finding("other")], occasion()))
    assert mixed.subject.endswith(
        "; 1 will be scaled in from Tue 24 Nov; 1 will be scaled in outside office hours from Tue 24 Nov"
    )


# --- how to stop it now


def made(kind: str, id_: str, details: Any = None, **fields: Any) -> Resource:
    target = AZURE if kind.startswith("azureml") else resource().target
    return resource(kind=kind, id=id_, name=id_.rpartition("/")[2], target=target, details=details, **fields)


ARN = "arn:aws:sagemaker:us-east-1:123456789012"
SCALES = EndpointDetails(scale_in=ScaleInPlan(instances_by_variant={"blue": 1}))
APP = StudioAppDetails(domain_id="d-1", space_name="dana", app_type="JupyterLab", app_name="default")
WAYS = [
    pytest.param(
        made("sagemaker-notebook", f"{ARN}:notebook-instance/nb"), "aws sagemaker stop-notebook-instance", id="notebook"
    ),
    pytest.param(
        made("sagemaker-endpoint", f"{ARN}:endpoint/churn", SCALES),
        "--desired-weights-and-capacities VariantName=blue,DesiredInstanceCount=1",
        id="endpoint",
    ),
    pytest.param(made("sagemaker-studio-app", f"{ARN}:app/d-1/x", APP), "--domain-id d-1 --app-type JupyterLab", id="app"),
    pytest.param(made("sagemaker-inference-component", f"{ARN}:inference-component/k1"), "CopyCount=0", id="component"),
    pytest.param(made("azureml-compute-instance", f"{SPACE}/computes/gpu"), "az ml compute stop --name gpu", id="instance"),
    pytest.param(made("azureml-compute-cluster", f"{SPACE}/computes/gpus"), "--min-instances 0", id="cluster"),
    pytest.param(
        made("azureml-online-deployment", f"{SPACE}/onlineEndpoints/e/deployments/blue"),
        "az ml online-deployment update --name blue --endpoint-name e",
        id="deployment",
    ),
]


@pytest.mark.parametrize(("thing", "line"), WAYS)
def test_a_notice_has_the_command_that_stops_its_kind_now(thing: Resource, line: str):
    body = text(finding(resource=thing))
    assert line in body
    assert line not in text(finding(resource=thing, acts={StepName.STOP: Blocked(because="its status is Updating")})), (
        "it is barred"
    )
    assert line not in text(finding(resource=thing, acts={})), "its kind only tells"


@pytest.mark.parametrize("thing", [way.values[0] for way in WAYS], ids=[way.id for way in WAYS])
def test_a_command_that_takes_a_name_says_whose(thing: Resource):
    """The same name with credentials of another account stops another resource, which may be in use."""
    command = item.stop_command(finding(resource=thing).case)
    assert command is not None
    whole = "--resource-group" in command.line and "--workspace-name" in command.line
    assert whole or ", in account 123456789012" in command.label


def test_owners_can_stop_what_the_reaper_never_stops():
    server = made("sagemaker-mlflow-server", f"{ARN}:mlflow-tracking-server/runs")
    body = text(finding(resource=server, acts={}))
    assert "It won't be stopped automatically." in body
    assert (
        "Stop it now, in account 123456789012: "
        "aws sagemaker stop-mlflow-tracking-server --region us-east-1 --tracking-server-name runs\n"
    ) in body


def test_every_kind_has_a_command_for_its_owner():
    assert {p.values[0].kind for p in WAYS} | {"bedrock-provisioned-throughput", "sagemaker-mlflow-server"} == {
        k.name for k in registry.kinds()
    }


def test_a_row_without_a_console_page_has_its_command():
    app = WAYS[2].values[0]
    many = [finding(f"e{n}") for n in range(owner_notice.MAX_DETAILED)]
    message = only(owner_notices([*many, finding(resource=app, usd=0.1)], occasion()))
    row = unescape(message.html.partition("And 1 more")[2])
    assert "aws sagemaker delete-app" in row


@pytest.mark.parametrize("count", [1, 8])
def test_a_message_about_eight_speaks_of_them(count: int):
    message = only(owner_notices([finding(f"e{n}", 1.0) for n in range(count)], occasion()))
    whose = "it" if count == 1 else "them"
    for body in (message.text, message.html):
        assert f"Stop or delete {whose}, and these notices end." in body
    if count > 1:
        head = message.text.partition("\n1. ")[0].replace("Open its Keep it link", "")
        assert not re.search(r"\b(it|its|resource|costs)\b", message.subject + head, re.IGNORECASE)


def test_every_mail_to_an_owner_leads_to_the_page_about_it():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    docs = project["urls"]["Documentation"].replace("/tree/", "/blob/")
    assert f"{docs}/got-a-mail.md" == ABOUT
    assert (Path(__file__).parents[2] / "docs" / "got-a-mail.md").exists()
    message = only(owner_notices([finding()], occasion()))
    assert f"What is this? {ABOUT}\n" in message.text
    assert f'href="{ABOUT}"' in message.html


def test_owners_get_a_delete_command_if_scaling_in_is_blocked():
    one = {StepName.STOP: Blocked(because="it already runs one", already_done=True), StepName.DELETE: None}
    alone = finding(acts=one)
    assert "Delete it now, in account 123456789012 (its configuration and models stay): aws sagemaker delete-endpoint" in text(
        alone
    )
    assert "delete-endpoint" not in text(finding(acts={StepName.STOP: None, StepName.DELETE: None})), "it can be scaled in"
    assert "delete-endpoint" not in text(finding(acts=one | {StepName.DELETE: Blocked(because="it is managed by a stack")}))
    host = finding(acts=one, resource=made("sagemaker-endpoint", f"{ARN}:endpoint/h", EndpointDetails(copies={"c": 1})))
    assert "delete-endpoint" not in text(host)
    cached = Blocked(because="its configuration was not read", not_read=True)
    described = EndpointDetails(scale_in=ScaleInPlan(), unrestorable=cached)
    again = finding(acts=one | {StepName.DELETE: cached}, resource=made("sagemaker-endpoint", f"{ARN}:endpoint/h", described))
    assert "Delete it now, in account 123456789012: aws sagemaker delete-endpoint" in text(again), (
        "a person may delete what the reaper didn't read"
    )
    assert "weights-and-capacities" not in text(finding(acts={StepName.STOP: cached}, resource=again.case.resource))
    busy = made("azureml-online-deployment", f"{SPACE}/onlineEndpoints/e/deployments/blue", SimpleNamespace(traffic_percent=100))
    assert "deployment delete" not in text(finding(resource=busy, acts=one))


def test_active_or_settled_resources_have_no_stop_command():
    used = finding(state=State.ACTIVE, resource=WAYS[0].values[0])
    stopped = finding(
        move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it is stopping"), resource=WAYS[0].values[0]
    )
    for each in (used, stopped):
        shown = notice_item(each, occasion())
        assert (shown.stop, shown.console) == (None, None)


@pytest.mark.parametrize("variant", ["a,VariantName=b", "a=1", "", "-x", "x" * 64, "b\n", "$(id)"])
def test_a_variant_with_shorthand_syntax_is_in_no_command(variant: str):
    thing = made(
        "sagemaker-endpoint", f"{ARN}:endpoint/e", EndpointDetails(scale_in=ScaleInPlan(instances_by_variant={variant: 1}))
    )
    assert item.stop_command(finding(resource=thing, acts={StepName.STOP: None}).case) is None


HOSTILE = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("<>\"'&{}%\r\n\x00\u202e=@;`$()/?#: ,")), min_size=1, max_size=40
)


@settings(deadline=None)
@given(HOSTILE)
def test_no_name_gets_more_than_itself_into_a_command_to_stop_it(name: str):
    for kind in (k.name for k in registry.kinds() if StepName.STOP in k.commands):
        ids = {"azureml-online-deployment": f"{SPACE}/onlineEndpoints/{name}/deployments/{name}"}
        id_ = ids.get(kind, f"{SPACE}/computes/{name}") if kind.startswith("azureml") else f"{ARN}:x/{name}"
        app = StudioAppDetails(domain_id=name, space_name=name, app_type=name, app_name=name)
        thing = made(kind, id_, app if kind == "sagemaker-studio-app" else SCALES, region="us-east-1")
        thing = replace(thing, name=name)
        verdict = Verdict(state=State.IDLE, because="idle", confidence=Confidence.PROVEN)
        command = item.stop_command(Case(resource=thing, rule=rule(), verdict=verdict, blocked={StepName.STOP: None}))
        if command is not None:
            assert command.line.isprintable()
            assert [w for w in shlex.split(command.line) if name in w or w in name]
            assert shlex.split(command.line)[0] in {"aws", "az"}
            assert len(shlex.split(command.line)) == len(shlex.split(command.line.replace(shlex.quote(name), "x")))


# --- the console


PAGES = [
    pytest.param(
        made("sagemaker-endpoint", f"{ARN}:endpoint/a b"),
        "https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/endpoints/a%20b",
        id="escaped",
    ),
    pytest.param(
        made("sagemaker-notebook", "arn:aws-cn:sagemaker:cn-north-1:123456789012:notebook-instance/nb", region="cn-north-1"),
        "https://cn-north-1.console.amazonaws.cn/sagemaker/home?region=cn-north-1#/notebook-instances/nb",
        id="China",
    ),
    pytest.param(
        made("sagemaker-inference-component", f"{ARN}:inference-component/k1", ComponentDetails(endpoint_name="host")),
        "https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/endpoints/host",
        id="a component's endpoint",
    ),
    pytest.param(
        made("azureml-compute-instance", f"{SPACE}/computes/gpu"),
        f"https://ml.azure.com/compute/gpu/details?wsid={SPACE}",
        id="Azure",
    ),
    pytest.param(
        made("azureml-online-deployment", f"{SPACE}/onlineEndpoints/e/deployments/blue"),
        f"https://ml.azure.com/endpoints/realtime/e/detail?wsid={SPACE}",
        id="a deployment's endpoint",
    ),
    pytest.param(made("sagemaker-studio-app", f"{ARN}:app/d-1/x"), None, id="no page of its own"),
    pytest.param(made("sagemaker-endpoint", f"{ARN}:endpoint/e", region="evil.example/#"), None, id="a region that is a host"),
    pytest.param(made("sagemaker-endpoint", "arn:evil:sagemaker:us-east-1:1:endpoint/e"), None, id="an unknown partition"),
    pytest.param(made("azureml-compute-instance", "/subscriptions/x/computes/gpu"), None, id="an odd id"),
    pytest.param(made("azureml-compute-instance", f"{SPACE}?x=1&y/computes/gpu"), None, id="a query in an id"),
]


@pytest.mark.parametrize(("thing", "page"), PAGES)
def test_each_kind_has_its_console_address(thing: Resource, page: str | None):
    assert item.console_address(thing) == page


@settings(deadline=None)
@given(HOSTILE)
def test_no_name_changes_where_a_console_link_leads(name: str):
    hosts = {"us-east-1.console.aws.amazon.com", "ml.azure.com"}
    for kind, id_ in (
        ("sagemaker-endpoint", f"{ARN}:endpoint/{name}"),
        ("azureml-compute-instance", f"{SPACE}/computes/{name}"),
        ("azureml-online-deployment", f"{SPACE}/onlineEndpoints/{name}/deployments/x"),
    ):
        link = item.console_address(replace(made(kind, id_), name=name))
        if link is not None:
            assert urlsplit(link).hostname in hosts
            assert link.isascii()
            assert not set(link) & set(" <>\"'\r\n")


# --- whom to ask


def test_a_notice_names_the_contact_before_the_fallback():
    contact = OWNERS.model_copy(update={"contact": "ml-help@example.com"})
    assert "Not yours, or questions? Contact ml-help@example.com." in text(finding(), owners=contact)
    assert "Not yours, or questions? Contact ml-admins@example.com." in text(finding())
    assert "Not yours" not in text(finding(), owners=Owners(domains=["example.com"]))


def test_contacts_are_not_referred_to_themselves():
    assert "Not yours" not in text(finding(address=None))
    assert "Not yours" not in text(finding(address="ml-admins@example.com"))


@settings(deadline=None)
@given(HOSTILE)
def test_a_mailto_link_has_one_recipient_and_no_other_header(name: str):
    item = finding(resource=resource(name=name, id=f"{ARN}:endpoint/{name}"))
    message = only(owner_notices([item], occasion()))
    [link] = [part.split('"')[0] for part in message.html.split('href="') if part.startswith("mailto:")]
    parts = urlsplit(unescape(link))
    assert (parts.scheme, parts.path) == ("mailto", "ml-admins@example.com")
    fields = parse_qs(parts.query, keep_blank_values=True)
    assert set(fields) == {"subject", "body"}
    assert [len(v) for v in fields.values()] == [1, 1]
    assert fields["subject"][0].isprintable() or set("\u200c\u200d") & set(fields["subject"][0])
    assert make_mail(message, "reaper@example.com", "lee@example.com", NOW)["Bcc"] is None


def test_a_not_mine_mail_names_only_a_few_resources():
    findings = [finding(f"r{n}", 1.0) for n in range(20)]
    message = only(owner_notices(findings, occasion()))
    [link] = [part.split('"')[0] for part in message.html.split('href="') if part.startswith("mailto:")]
    fields = parse_qs(urlsplit(unescape(link)).query)
    assert fields["subject"] == ["Not my resources: 20 ML resources"]
    assert fields["body"][0].endswith("and 15 more")
    assert len(link) < 2000


# --- commands for admins


def test_commands_for_admins_name_the_ledger_and_those_for_owners_do_not():
    hold = finding("held", move=StepName.HOLD, step=Step(name=StepName.HOLD, because="would stop, but is on hold"))
    stopped = finding("done", move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it was scaled in", begun=True))
    summary = admin_summary(report(hold, stopped), occasion(location_settings=PLACES), frozenset())
    assert summary is not None
    named = "REAPER_LEDGER=dynamodb://reaper-ledger REAPER_MANIFESTS=s3://bucket/manifests reaper"
    for body in (summary.text, summary.html):
        assert f"{named} release" in body
        assert f"{named} restore {stopped.case.resource.id}" in body
    assert f"To undo this later: {named} restore arn:" in text(finding(address=None), location_settings=PLACES)
    assert "REAPER_LEDGER" not in text(finding(), location_settings=PLACES)


@pytest.mark.parametrize(
    "place", ["https://x.blob.core.windows.net/c?sig=secret", "https://me:secret@host/c", "memory:", "", "a\nb"]
)
def test_no_mail_contains_an_address_with_a_key(place: str):
    assert item.with_settings("reaper release", {"REAPER_MANIFESTS": place, "REAPER_LEDGER": place}) == "reaper release"


def test_an_address_with_blanks_is_one_argument():
    line = item.with_settings("reaper release", {"REAPER_LEDGER": "sqlite:///my files/l.db"})
    assert shlex.split(line) == ["REAPER_LEDGER=sqlite:///my files/l.db", "reaper", "release"]


# --- the sample


def test_the_sample_says_that_none_of_its_three_resources_is_stopped():
    message = sample.sample_message("dana@example.com", NOW, "ml-admins@example.com")
    assert message.subject == "[Sample] 3 idle ML resources cost $189 a day; nothing will be stopped"
    assert message.text.startswith("This is a sample. All 3 resources in it are made up, and nothing will be stopped.\n")
    assert "All 3 resources in it are made up, and nothing will be stopped." in message.html


def test_the_sample_shows_what_a_real_notice_shows():
    message = sample.sample_message("dana@example.com", NOW, "ml-admins@example.com")
    [real] = owner_notices(
        sample.sample_findings("dana@example.com", NOW),
        sample.sample_context("dana@example.com", NOW, "ml-admins@example.com"),
    )
    assert message.text.partition("\n\n")[2] == real.text
    for text in (
        "It will be scaled in on or after Tue 24 Nov 2026, 10:17 UTC unless it is used or kept before then. This saves",
        "It can't be stopped automatically because it already runs no more than one instance per variant.",
        "The evidence is indirect, so it won't be stopped automatically.",
        "Scale it in now, in account 123456789012: aws", "Delete it now", "Stop it now: az", "n the console: https://", "Keep it: https://",
        "Not yours? Open a Keep it link and choose Not mine. Questions? Contact ml-admins@example.com.",
    ):  # fmt: skip
        assert text in real.text


def test_the_subject_of_a_sample_stays_within_its_limit():
    findings = [finding("n" * 60, 2.0)]
    made_up = only(owner_notices(findings, occasion(sample=True, now=NOW + timedelta(days=1))))
    assert made_up.subject.startswith("[Sample] ")
    assert len(made_up.subject) <= MAX_SUBJECT


# --- the policy's key


@pytest.mark.parametrize(
    "contact", ["ML help <ml@example.com>", "a@b.c\nBcc: x@evil.example", "https://example.com/help", "x?cc=y@z.co", 7]
)
def test_a_contact_is_one_plain_address(contact: object):
    with pytest.raises(ValueError, match="contact"):
        Owners.model_validate({"contact": contact})


def test_the_schema_describes_a_contact():
    assert "the contact at the end of owners" in Owners.model_json_schema()["properties"]["contact"]["description"]
