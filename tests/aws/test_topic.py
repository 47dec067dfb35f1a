from __future__ import annotations

from core.letters import report
from core.test_hostile_messages import hostile
from reaper.aws import topic


def test_the_summary_on_the_topic_has_no_masked_link():
    text = topic.body(report(hostile("[Keep it](http://evil.example) <http://evil.example|Keep it> <!channel>")), None)
    assert "evil.example" in text
    assert not any(mask in text for mask in ("](http", "<http", "<!"))
