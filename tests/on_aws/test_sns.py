from __future__ import annotations

import pytest

from fakes.mails import compose_summary
from fakes.sample_findings import occasion, report
from notices.test_hostile_messages import hostile
from reaper.aws.channels import sns
from reaper.notices.message import without_markup


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("idle: [Keep](http://evil.example)", "idle: [Keep] (http://evil.example)"),
        ("<!channel> @here", "< !channel> @ here"),
        ("a\u200bb\u00adc \u202egnp", "abc gnp"),
        ("churn of ann@team.example.com", "churn of ann@team.example.com"),
        ("größer", "gr??er"),
    ],
)
def test_a_subject_shows_no_mark_for_invisible_characters(text: str, subject: str):
    assert sns.ascii_subject(without_markup(text)) == subject


def test_the_summary_on_the_topic_has_no_masked_link():
    hostile_report = report(hostile("[Keep it](http://evil.example) <http://evil.example|Keep it> <!channel>"))
    text = without_markup(compose_summary(hostile_report, occasion()).text)
    assert "evil.example" in text
    assert not any(mask in text for mask in ("](http", "<http", "<!"))
