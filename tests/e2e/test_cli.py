"""The command as a person runs it: a process of its own, its exit status, what it says on which stream."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest

import forks
import strict
from reaper.registry import kinds
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import cut, denied, on, rate_limit
from reaper_sandbox.aws.server import Server

NOW = datetime.now(UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def server():
    with Server(NOW) as running:
        yield running


@pytest.fixture
def account(server: Server) -> Account:
    account = Account(server)
    for name in ("busy", "quiet"):
        account.endpoint(name, tags={"team": "a", "owner": "=cmd()|x"})
        account.alive(name, "AllTraffic", NOW - 15 * DAY, NOW + DAY)
    account.invoked("busy", "AllTraffic", NOW - HOUR)
    return account


def reaper(server: Server | None, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    env = {
        **plain,
        **(server.env if server else {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}),
        **environ,
    }
    return forks.reaper(*arguments, env=env)


def test_the_json_report_has_the_documented_keys(server: Server, account: Account):
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", "json")
    assert completed.returncode == 0, completed.stderr
    report = strict.loads(completed.stdout)
    jsonschema.validate(report, CONTRACT)
    by_name = {f["name"]: f for f in report["findings"]}
    assert (by_name["busy"]["state"], by_name["quiet"]["state"]) == ("active", "idle")
    assert report["run"]["mode"] == "audit"
    assert {f["outcome"] for f in report["findings"]} == {"planned"}
    assert report["totals"]["by_state"] == {"active": 1, "idle": 1, "young": 0, "exempt": 0, "unknown": 0}
    assert report["totals"]["calls"] == sum(sum(c["calls"].values()) for c in report["coverage"])
    assert {c["kind"] for c in report["coverage"]} >= {"sagemaker-endpoint", "sagemaker-notebook"}


def test_an_audit_creates_no_ledger_file(server: Server, account: Account, tmp_path: Path):
    completed = reaper(server, "sweep", "--cloud", "aws", REAPER_LEDGER=f"sqlite://{tmp_path}/state/ledger.db")
    assert completed.returncode == 0, completed.stderr
    assert list(tmp_path.iterdir()) == []


def test_fail_on_idle_exits_with_1(server: Server, account: Account):
    assert reaper(server, "sweep", "--cloud", "aws", "--fail-on", "idle").returncode == 1
    assert reaper(server, "sweep", "--cloud", "aws", "--kind", "sagemaker-notebook", "--fail-on", "idle").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["sweep", "--cloud", "gcp"], {}, "Invalid value for '--cloud': 'gcp' is not one of"),
        (["sweep", "--kind", "sagemaker-endpont"], {}, "did you mean sagemaker-endpoint?"),
        (["sweep", "--cloud", "aws", "--region", "us-east-11"], {}, "did you mean us-east-1?"),
        (["sweep", "--cloud", "aws", "--policy", "nowhere.yaml"], {}, "policy 'nowhere.yaml': can't be read"),
        (
            ["sweep", "--cloud", "aws", "--policy", "version: 1\nrulez: []"],
            {},
            "inline policy:2: rulez: unknown key; did you mean rules?",
        ),
        (["sweep", "--account", "99999"], {}, "--account: '99999' isn't an AWS account ID; use 12 digits"),
        (["sweep", "--ou", "r-ab12"], {}, "--ou: 'r-ab12' isn't the ID of an organizational unit, such as ou-ab12-34cdefgh"),
        (["sweep", "--ou", "ou-ab12-34cdefgh", "--account", "999999999999"], {}, "--account and --ou don't go together"),
        (["sweep", "--organization", "--account", "999999999999"], {}, "--account and --organization don't go together"),
        (["sweep", "--exclude-account", "999999999999"], {}, "add --organization or --ou, or drop it"),
        (["sweep", "--organization", "--cloud", "azure"], {}, "--organization is for aws, but --cloud azure excludes it"),
        (["sweep", "--role-name", "arn:aws:iam::1:role/x"], {}, "use NAME or PATH/NAME, without the ARN"),
        (["sweep", "--external-id", "x"], {}, "--external-id isn't an external ID; use 2 to 1,224 letters"),
        (["sweep", "--management-group", "The Group"], {}, "use its ID, not its display name"),
        (["sweep"], {"REAPER_ACCOUNTS": "self,999999999999"}, "REAPER_ACCOUNTS: self stands alone"),
        (["explain", "quiet", "--report", "x.json", "--role-name", "x"], {}, "--role-name needs a cloud"),
        (["sweep", "--cloud", "aws", "--output", "/nowhere/report"], {}, "can't be written"),
        (["sweep"], {"REAPER_MODE": "adit"}, "REAPER_MODE='adit': unknown mode"),
        (["sweep"], {"REAPER_MOED": "audit"}, "did you mean REAPER_MODE?"),
        (["policy", "check", "nowhere.yaml"], {}, "can't be read"),
        (["explain", "no-such-thing", "--cloud", "aws"], {}, "was not found"),
        (["explain", "quiet", "--report", "nowhere.json"], {}, "--report 'nowhere.json': can't be read"),
        (["explain", "quiet", "--report", "x.json", "--cloud", "aws"], {}, "drop one of the two"),
        (["sweep", "--kind", ""], {}, "--kind '' is empty"),
        (["sweep", "--mode", "foo"], {}, "error --mode='foo': unknown mode; use audit, notify, announce or enforce"),
        (["sweep", "--output", ""], {}, "--output '' names no file"),
        (["sweep", "--output", "report.pdf"], {}, "no report format ends in .pdf; use .html, .htm, .json, .csv"),
        (["plan", "--output", ""], {}, "--output '' names no file"),
        (["demo", "--output", ""], {}, "--output '' names no folder"),
        (["plan", "--output", "-", "--kind", ""], {}, "--kind '' is empty"),
        (["sweep", "--subscription", "abc"], {}, "--subscription: 'abc' isn't a subscription ID such as 0000"),
        (["sweep", "--region", "us-east1"], {}, "error unknown AWS region us-east1; did you mean us-east-1?"),
        (["sweep"], {"REAPER_REGIONS": "us-east-1,us-esat-1"}, "unknown AWS region us-esat-1; did you mean us-east-1?"),
    ],
)
def test_an_error_exits_with_2_and_names_the_problem(server: Server, arguments: list[str], environ: dict[str, str], message: str):
    completed = reaper(server, *arguments, **environ)
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert message in " ".join(completed.stderr.split())
    assert "Traceback" not in completed.stderr


def test_an_unknown_region_that_is_like_no_other_is_asked(server: Server, account: Account):
    completed = reaper(server, "sweep", "--region", "us-east-9", "--kind", "sagemaker-endpoint", "--format", "json")
    assert "aws: us-east-9 isn't a region that this version knows. It is asked all the same" in completed.stderr
    assert {row["region"] for row in json.loads(completed.stdout)["coverage"]} == {"us-east-9"}


def test_a_misspelled_region_stops_both_clouds_before_any_call(server: Server):
    completed = reaper(server, "sweep", "--region", "us-east1", REAPER_SUBSCRIPTIONS="11111111-1111-1111-1111-111111111111")
    assert (completed.returncode, completed.stdout, server.calls) == (2, "", [])


def test_missing_credentials_are_an_error():
    completed = reaper(
        None, "sweep", AWS_SHARED_CREDENTIALS_FILE="/dev/null", AZURE_TOKEN_CREDENTIALS="ManagedIdentityCredential"
    )
    assert completed.returncode == 2
    assert "no credentials" in completed.stderr


def test_a_denied_list_exits_with_3_and_the_rest_is_judged(server: Server, account: Account):
    server.rules.append(on("ListNotebookInstances", denied()))
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", "json")
    assert completed.returncode == 3
    report = json.loads(completed.stdout)
    assert {f["name"] for f in report["findings"]} == {"busy", "quiet"}
    row = next(c for c in report["coverage"] if c["kind"] == "sagemaker-notebook")
    assert (row["status"], row["missing"]) == ("denied", "sagemaker:ListNotebookInstances")


def test_exit_status_3_wins_over_1(server: Server, account: Account):
    server.rules.append(on("ListApps", cut()))
    assert reaper(server, "sweep", "--cloud", "aws", "--fail-on", "idle").returncode == 3


def test_an_unavailable_account_is_a_coverage_row(server: Server):
    server.rules.append(on("GetCallerIdentity", denied()))
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", "json")
    assert completed.returncode == 3
    assert json.loads(completed.stdout)["coverage"][0]["missing"] == "sts:GetCallerIdentity"


def test_a_sweep_completes_under_throttling(server: Server):
    account = Account(server)
    for index in range(15):
        account.endpoint(f"e{index:02}")
        account.alive(f"e{index:02}", "AllTraffic", NOW - 15 * DAY, NOW + DAY)
    server.rules.append(rate_limit(5, burst=5, operation="(List|Describe|Get).*"))
    completed = reaper(server, "sweep", "--cloud", "aws", "--kind", "sagemaker-endpoint", "--format", "json")
    assert completed.returncode == 0, completed.stdout[-2000:]
    assert json.loads(completed.stdout)["totals"]["by_state"]["idle"] == 15


def test_region_all_sweeps_every_region(server: Server, account: Account):
    completed = reaper(server, "sweep", "--cloud", "aws", "--region", "all", "--kind", "sagemaker-notebook", "--format", "json")
    assert completed.returncode == 0, completed.stderr
    assert {"us-east-1", "eu-west-1"} < {c["region"] for c in json.loads(completed.stdout)["coverage"]}


def test_the_text_report_leads_with_money_and_ends_with_coverage(server: Server, account: Account):
    completed = reaper(server, "sweep", "--cloud", "aws")
    order = [
        completed.stdout.index(word) for word in ("Idle now", "resources", "Idle, most expensive first", "quiet", "Coverage")
    ]
    assert order == sorted(order)
    assert "would be notified. For every signal:" in completed.stdout
    assert "nothing was changed" in completed.stdout
    assert "sagemaker-endpoint: 2 found" in completed.stderr


def test_csv_formulas_are_defused(server: Server):
    account = Account(server)
    account.notebook("nb", status="Stopped", tags={"owner": "=cmd()|x"})
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(completed.stdout)))
    assert [r["ResourceName"] for r in rows] == ["nb"]
    assert all(cell[:1] not in "=+-@" or not cell for r in rows for cell in r.values())


@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_every_format_has_the_same_findings(server: Server, account: Account, format_: str, tmp_path: Path):
    out = tmp_path / "report"
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", format_, "--output", str(out))
    assert (completed.returncode, completed.stdout) == (0, "")
    assert f"Wrote {out}\n" in completed.stderr
    assert "quiet" in out.read_text()


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("x.html", "<!doctype html>"),
        ("x.HTM", "<!doctype html>"),
        ("x.json", '{"schema": 1'),
        ("x.csv", "state,"),
        ("x.md", "# Idle"),
        ("x", "Idle now"),
    ],
)
def test_the_output_suffix_chooses_the_format(server: Server, account: Account, name: str, begins: str, tmp_path: Path):
    completed = reaper(server, "sweep", "--cloud", "aws", "--output", str(tmp_path / name))
    assert (completed.returncode, completed.stdout) == (0, "")
    assert (tmp_path / name).read_text().startswith(begins)


def test_an_explicit_format_wins_over_the_suffix(server: Server, account: Account, tmp_path: Path):
    reaper(server, "sweep", "--cloud", "aws", "--format", "csv", "--output", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text().startswith("state,")


def test_a_sweep_shows_its_progress(server: Server, account: Account):
    lines = reaper(server, "sweep", "--cloud", "aws").stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"{n + 1} of {len(kinds('aws'))}" for n in range(len(kinds("aws")))]


def test_columns_sets_the_width_of_the_report(server: Server, account: Account):
    path = (
        f"{forks.REAPER.parent}{os.pathsep}{os.environ['PATH']}"  # or its own path, however long, is part of a command to paste
    )
    texts = {c: reaper(server, "sweep", "--cloud", "aws", COLUMNS=c, PATH=path).stdout for c in ("60", "80")}
    widths = {c: max(map(len, text.splitlines())) for c, text in texts.items()}
    assert (widths["60"] <= 60, widths["80"] <= 80) == (True, True)


def test_an_unreadable_cloud_exits_with_3_and_a_remedy(server: Server):
    server.rules.append(on("GetCallerIdentity", denied()))
    completed = reaper(server, "sweep", "--cloud", "aws")
    assert completed.returncode == 3
    assert completed.stdout.startswith("Nothing could be read.\n  AWS: check")
    assert "allow them sts:GetCallerIdentity" in " ".join(completed.stdout.split())


@pytest.mark.parametrize("command", [(), ("sweep",), ("explain",), ("policy", "check"), ("notify", "test")])
def test_help_has_a_short_name(command: tuple[str, ...]):
    completed = reaper(None, *command, "-h")
    assert completed.returncode == 0
    assert "Usage: reaper" in completed.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "sweep",
            ["Exit status: 0 complete", "audit only reports", "Default: REAPER_MODE, else audit", "repeated or comma-separated"],
        ),
        ("apply", ["REAPER_LEDGER", "REAPER_MANIFESTS"]),
        ("restore", ["REAPER_LEDGER", "REAPER_MANIFESTS"]),
        ("undo", ["REAPER_LEDGER", "REAPER_MANIFESTS"]),
        ("release", ["REAPER_LEDGER", "REAPER_MANIFESTS"]),
    ],
)
def test_help_names_the_settings_of_a_command(command: str, message: list[str]):
    completed = reaper(None, command, "-h", COLUMNS="300")
    assert [word for word in message if word not in " ".join(completed.stdout.split())] == []


@pytest.mark.parametrize("format_", ["json", "csv", "html", "markdown"])
def test_a_report_in_a_file_mentions_gaps_on_stderr(server: Server, account: Account, format_: str):
    server.rules.append(on("ListNotebookInstances", denied()))
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", format_)
    assert completed.returncode == 3
    rows = f"{len(kinds('aws')) - 1} of {len(kinds('aws'))} complete"
    assert f"coverage incomplete: {rows}; first: denied: sagemaker-notebook in 123456789012" in completed.stderr
    assert "coverage incomplete" not in reaper(server, "sweep", "--cloud", "aws").stderr


def test_shell_completion_works():
    words = {"_REAPER_COMPLETE": "complete_bash", "COMP_WORDS": "reaper sweep --form", "COMP_CWORD": "2"}
    assert reaper(None, **words).stdout.split() == ["--format"]
    assert (
        "_reaper_completion" in reaper(None, "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout
    )


def test_explain_shows_signals_rule_and_verdict(server: Server, account: Account):
    arn = account.arn("endpoint/quiet").upper()
    completed = reaper(server, "explain", arn, "--cloud", "aws")
    assert completed.returncode == 0, completed.stderr
    for word in (
        "activity  Invocations",
        "heartbeat CPUUtilization",
        "verdict   idle (proven)",
        "the policy's defaults",
        "tags      ",
    ):
        assert word in completed.stdout


def test_explain_suggests_a_similar_name(server: Server, account: Account):
    completed = reaper(server, "explain", "quite", "--cloud", "aws")
    assert (completed.returncode, completed.stdout) == (2, "")
    assert "'quite' was not found in 2 resources; did you mean quiet?" in completed.stderr
    assert reaper(server, "explain", "QUI", "--cloud", "aws").stdout.startswith("quiet\n"), "a part that only one has"


def test_policy_check_and_schema_print_their_results(tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nrules: [{name: all}, {name: never, match: {region: us-east-1}}]\n")
    completed = reaper(None, "policy", "check", str(path))
    assert completed.returncode == 0
    assert "never matches" in completed.stderr
    jsonschema.Draft202012Validator.check_schema(json.loads(reaper(None, "policy", "schema").stdout))


def test_kinds_and_version_print_their_lists():
    assert "sagemaker-studio-app" in reaper(None, "kinds").stdout
    assert reaper(None, "--version").stdout.startswith("reaper ")


NULLABLE = {"type": ["string", "null"]}
CONTRACT = {
    "type": "object",
    "required": ["schema", "run", "coverage", "findings", "totals"],
    "properties": {
        "schema": {"const": 1},
        "run": {"type": "object", "required": ["id", "started_at", "finished_at", "mode", "version", "policy_sha256"]},
        "coverage": {
            "type": "array",
            "items": {
                "required": ["cloud", "account", "region", "kind", "status", "resources", "calls", "missing", "error"],
                "properties": {"status": {"enum": ["ok", "partial", "denied", "failed"]}, "calls": {"type": "object"}},
            },
        },
        "findings": {
            "type": "array",
            "items": {
                "required": [
                    *(
                        "id",
                        "kind",
                        "name",
                        "cloud",
                        "account",
                        "region",
                        "size",
                        "state",
                        "confidence",
                        "because",
                        "idle_for_s",
                        "last_busy",
                    ),
                    *(
                        "rule",
                        "rule_detail",
                        "memory",
                        "tags",
                        "owner",
                        "usd_per_hour",
                        "price",
                        "wasted_usd",
                        "step",
                        "step_because",
                        "outcome",
                        "error",
                        "evidence",
                    ),
                ],
                "properties": {
                    "state": {"enum": ["active", "idle", "young", "exempt", "unknown"]},
                    "confidence": {"enum": ["proven", "likely", None]},
                    "owner": {"required": ["address", "source", "claimed"]},
                    "rule_detail": {"required": ["action", "idle_after", "grace", "freezes", "waits_because", "hours"]},
                    "memory": {"type": ["object", "null"], "required": ["idle_since", "warned_at", "snoozed_until"]},
                    "usd_per_hour": {"type": ["number", "null"]},
                    "evidence": {
                        "type": "array",
                        "items": {"required": ["signal", "role", "points", "last_busy", "peak", "complete"]},
                    },
                },
            },
        },
        "totals": {"required": ["resources", "by_state", "idle_usd_per_hour", "idle_usd_per_month", "unpriced_idle", "calls"]},
    },
}


def test_one_sweep_writes_several_reports(server: Server, account: Account, tmp_path: Path):
    files = [tmp_path / "report.json", tmp_path / "report.md"]
    completed = reaper(server, "sweep", "--cloud", "aws", "--output", "-", *(f"--output={path}" for path in files))
    assert completed.returncode == 0, completed.stderr
    run = strict.loads(files[0].read_text())["run"]["id"]
    assert run in files[1].read_text()
    assert "Idle now" in completed.stdout
    assert completed.stderr.count("Wrote ") == 2


def test_a_second_report_that_cannot_be_written_stops_before_the_sweep(server: Server, account: Account, tmp_path: Path):
    completed = reaper(server, "sweep", "--cloud", "aws", f"--output={tmp_path}/report.json", "--output=/nowhere/report.md")
    assert completed.returncode == 2
    assert "can't be written" in completed.stderr
    assert server.calls == []
    assert list(tmp_path.iterdir()) == []
