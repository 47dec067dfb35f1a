#!/usr/bin/env bash
# One audit sweep in a GitHub workflow, for action.yml: the report as the job's summary, its figures as outputs, the exit status of `reaper sweep`.
set -euo pipefail
bin=$(cd "$(dirname "$0")/../../.venv/bin" && pwd)
folder=$(mktemp -d "$RUNNER_TEMP/ml-idle-reaper-XXXXXX")
options=(--mode audit --cloud "$SWEEP_CLOUD" --output "$folder/report.md" --output "$folder/report.json")
if [ -n "$SWEEP_REGIONS" ]; then options+=(--region "$SWEEP_REGIONS"); fi
if [ -n "$SWEEP_SUBSCRIPTIONS" ]; then options+=(--subscription "$SWEEP_SUBSCRIPTIONS"); fi
if [ -n "$SWEEP_POLICY" ]; then options+=(--policy "$SWEEP_POLICY"); fi
if [ -n "$SWEEP_FAIL_ON" ]; then options+=(--fail-on "$SWEEP_FAIL_ON"); fi
if [ -n "$SWEEP_FAIL_ON_COST" ]; then options+=(--fail-on-cost "$SWEEP_FAIL_ON_COST"); fi
status=0
"$bin/reaper" sweep "${options[@]}" || status=$?
if [ ! -s "$folder/report.json" ]; then exit "$status"; fi
# GitHub refuses a summary of more than 1 MiB: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
if [ "$(wc -c <"$folder/report.md")" -le 1000000 ]; then
    cat "$folder/report.md" >>"$GITHUB_STEP_SUMMARY"
else
    head -c 900000 "$folder/report.md" | sed '$d' >>"$GITHUB_STEP_SUMMARY"
    printf '\n\nThe rest is too long for a summary. The JSON report has all of it.\n' >>"$GITHUB_STEP_SUMMARY"
fi
"$bin/python" - "$folder/report.json" >>"$GITHUB_OUTPUT" <<'END'
import json
import sys

totals = json.load(open(sys.argv[1], encoding="utf-8"))["totals"]
print(f"idle-usd-per-hour={totals['idle_usd_per_hour']}")
print(f"idle={totals['by_state']['idle']}")
print(f"report={sys.argv[1]}")
END
exit "$status"
