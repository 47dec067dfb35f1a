"""The page for people who run a deployment: every alarm and alert with what to do."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPERATIONS = (ROOT / "docs/operations.md").read_text()
ALARM = re.compile(r"^  (\w+):\n(?:    [^\n]*\n)*?    Type: AWS::CloudWatch::(?:Composite)?Alarm$", re.MULTILINE)
ALERT = re.compile(
    r"'Microsoft\.Insights/(?:scheduledQueryRules|metricAlerts|activityLogAlerts)@[^']+'[^\n]*\n\s+name: '\$\{name\}-([\w-]+)'"
)


def rows(page: str, mark: str) -> dict[str, list[str]]:
    """The table after a mark: the other cells by the first one, without its backticks."""
    table = page[page.index(mark) :].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines() if line.startswith("| ")]
    return {first.strip("`*"): rest for first, *rest in cells[2:]}


def test_every_alarm_of_the_templates_is_explained():
    alarms = {
        name for path in [ROOT / "template.yaml", *ROOT.glob("infra/**/*.yaml")] for name in ALARM.findall(path.read_text())
    }
    assert len(alarms) >= 6
    assert rows(OPERATIONS, "<!-- aws alarms -->").keys() == alarms


def test_every_alert_of_the_bicep_files_is_explained():
    alerts = {name for path in ROOT.glob("infra/**/*.bicep") for name in ALERT.findall(path.read_text())}
    assert len(alerts) >= 4
    assert rows(OPERATIONS, "<!-- azure alerts -->").keys() == alerts


def test_every_alarm_says_what_to_do():
    both = rows(OPERATIONS, "<!-- aws alarms -->") | rows(OPERATIONS, "<!-- azure alerts -->")
    assert [name for name, cells in both.items() if len(cells) != 2 or not all(cells)] == []
