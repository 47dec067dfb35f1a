"""The policy, the last report and the schedule."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from fakes.builders import NOW, TARGET
from fakes.sample_reports import sample_report
from reaper import registry
from reaper.doctor import policies, schedule
from reaper.doctor.check import Check, CheckStatus
from reaper.doctor.context import DoctorContext, Opened
from reaper.ledger import opening
from reaper.ledger.port import RunStatistics
from reaper.model import Mode
from reaper.policy.parse import policy_digest
from reaper.report.json import report_json
from reaper.settings import Settings
