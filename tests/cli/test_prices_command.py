"""`reaper prices`: what is known of a price, from where and when."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from reaper.cli.main import app

OWN = """version: 1
prices:
  rules: [{name: g5, match: {size: ml.g5.xlarge}, discount: 50%, as_of: 2026-11-01}]
  currency: {code: EUR, rate: 2, as_of: 2026-11-01, source: ECB}
"""


def reaper(*arguments: str) -> tuple[int, str]:
    """The exit status, and what the command printed or its error."""
    result = CliRunner().invoke(app, ["prices", *arguments])
    return result.exit_code, result.stdout or str(result.exception)


def test_a_price_has_its_source_and_date():
    assert reaper("sagemaker-endpoint", "us-east-1", "ml.g5.xlarge") == (
        0,
        "Hosting: $1.4080 an hour (snapshot, 2026-05-20)\nAsyncInf: $1.4080 an hour (estimate (Hosting price), 2026-05-20)\n",
    )


def test_an_own_price_stands_beside_the_list_price():
    _, out = reaper("sagemaker-notebook", "us-east-1", "ml.g5.xlarge", "--policy", OWN)
    own, listed = out.split("; ")
    assert own.startswith("Notebook: EUR 1.4100 an hour (own: policy rule g5 on ")
    assert listed.startswith("list price EUR 2.8200 an hour (")


def test_an_unknown_price_is_called_unknown():
    assert reaper("sagemaker-endpoint", "us-east-1", "ml.made-up.large") == (0, "price unknown\n")
    out = reaper("sagemaker-endpoint", "moon-1", "ml.g5.xlarge", "--format", "json")[1]
    assert json.loads(out) == {
        "schema": 1,
        "kind": "sagemaker-endpoint",
        "region": "moon-1",
        "size": "ml.g5.xlarge",
        "prices": [],
    }


def test_the_lists_have_sources_and_dates():
    status, out = reaper("--format", "json", "--policy", OWN)
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
def test_a_wrong_question_is_refused(arguments: list[str], problem: str):
    status, error = reaper(*arguments)
    assert status
    assert problem in error
