"""`reaper prices`: what is known of a price, from where and when."""

from __future__ import annotations

import json
import sys

import pytest

from reaper.cli.main import _run_command

OWN = """version: 1
prices:
  rules: [{name: g5, match: {size: ml.g5.xlarge}, discount: 50%, as_of: 2026-11-01}]
  currency: {code: EUR, rate: 2, as_of: 2026-11-01, source: ECB}
"""


@pytest.fixture
def reaper(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["reaper", "prices", *arguments])
        status, fault = _run_command()
        assert fault is None
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_a_price_has_its_source_and_date(reaper):
    assert reaper("sagemaker-endpoint", "us-east-1", "ml.g5.xlarge")[:2] == (
        0,
        "Hosting: $1.4080 an hour (snapshot, 2026-05-20)\nAsyncInf: $1.4080 an hour (estimate (Hosting price), 2026-05-20)\n",
    )


def test_an_own_price_stands_beside_the_list_price(reaper):
    _, out, _ = reaper("sagemaker-notebook", "us-east-1", "ml.g5.xlarge", "--policy", OWN)
    own, listed = out.split("; ")
    assert own.startswith("Notebook: EUR 1.4100 an hour (own: policy rule g5 on ")
    assert listed.startswith("list price EUR 2.8200 an hour (")


def test_an_unknown_price_is_called_unknown(reaper):
    assert reaper("sagemaker-endpoint", "us-east-1", "ml.made-up.large")[:2] == (0, "price unknown\n")
    out = reaper("sagemaker-endpoint", "moon-1", "ml.g5.xlarge", "--format", "json")[1]
    assert json.loads(out) == {
        "schema": 1,
        "kind": "sagemaker-endpoint",
        "region": "moon-1",
        "size": "ml.g5.xlarge",
        "prices": [],
    }


def test_the_lists_have_sources_and_dates(reaper):
    status, out, _ = reaper("--format", "json", "--policy", OWN)
    lists = json.loads(out)
    assert (status, [each["cloud"] for each in lists["lists"]]) == (0, ["aws", "azure"])
    assert all(source["source"] and source["as_of"] for each in lists["lists"] for source in each["sources"])
    assert lists["own"]["currency"] == {"code": "EUR", "rate": 2.0, "as_of": "2026-11-01", "source": "ECB"}
    assert "One US dollar is EUR 2 (ECB, 2026-11-01)." in reaper("--policy", OWN)[1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["sagemaker-endpoint"], "name all of KIND REGION SIZE", id="only a kind"),
        pytest.param(["sagemaker-notbook", "us-east-1", "ml.g5.xlarge"], "did you mean sagemaker-notebook?", id="a typo"),
    ],
)
def test_a_wrong_question_is_refused(reaper, arguments: list[str], problem: str):
    status, out, err = reaper(*arguments)
    assert (status, out) == (2, "")
    assert problem in " ".join(err.split())
