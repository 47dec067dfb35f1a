"""A resource by ID, name or unique part. What is similar is never meant."""

from __future__ import annotations

import shlex

import pytest

from reaper.pending.lookup import candidate_lines, find_ids

BASE = "arn:aws:sagemaker:us-east-1:123456789012:endpoint"
NAMES = {f"{BASE}/{name}": name for name in ("fraud", "fraud-idle", "draft-translator", "draft-captions")}
ARM = "/subscriptions/1/resourceGroups/r/providers/Microsoft.MachineLearningServices/workspaces/w/computes/Dana-GPU"
NAMES[ARM] = "Dana-GPU"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(f"{BASE}/fraud", ["fraud"], id="an ID"),
        pytest.param(ARM.lower(), ["Dana-GPU"], id="an ARM ID in other letters"),
        pytest.param(f"{BASE}/frau", [], id="a cut ID"),
        pytest.param("fraud", ["fraud"], id="a whole name wins over parts"),
        pytest.param("idle", ["fraud-idle"], id="a part"),
        pytest.param("IDLE", ["fraud-idle"], id="a part in other letters"),
        pytest.param("draft", ["draft-translator", "draft-captions"], id="an ambiguous part"),
        pytest.param("draf…tor", ["draft-translator"], id="as a table cuts it"),
        pytest.param("endpoint/fraud-idle", ["fraud-idle"], id="the end of an ID"),
        pytest.param("123456789012", [], id="an account is no part"),
        pytest.param("fruad-idle", [], id="a slip"),
        pytest.param("", [], id="nothing"),
        pytest.param("…", [], id="only a cut"),
        pytest.param(".*", [], id="no pattern"),
    ],
)
def test_a_resource_is_found_by_id_name_or_part(wanted: str, found: list[str]):
    assert [NAMES[known] for known in find_ids(wanted, NAMES)] == found


def test_a_command_to_choose_from_is_one_word_for_the_shell():
    line = candidate_lines("reaper restore", ["/subscriptions/1/resourceGroups/r(prod)/x; touch y"])
    assert shlex.split(line) == ["reaper", "restore", "/subscriptions/1/resourceGroups/r(prod)/x; touch y"]
