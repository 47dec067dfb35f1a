"""The policy: that it can be read and is valid, and how it met the fleet in the last report."""

from __future__ import annotations

from collections.abc import Iterator

from reaper.doctor.check import Check, of_error, ok, to_fix, unknown
from reaper.doctor.context import DoctorContext, Opened, advice_for
from reaper.errors import PolicyError, ReaperError
from reaper.model import State
from reaper.policy.file import load_policy
from reaper.text import count_noun, first_few

POLICY_ADVICE = "Correct the policy; `reaper policy check` shows every problem."
OWNERS_ADVICE = "Set owners.fallback in the policy, or give these resources the tag reaper:owner."


def open_policy(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """Read and validate the policy, for this subject and others."""
    from reaper.policy import lint

    where = context.settings.policy
    try:
        opened.policy = source = load_policy(where)
    except PolicyError as error:
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        yield to_fix("policy", f"{error.problems[0]}{more}", POLICY_ADVICE)
        return
    except ReaperError as error:
        yield of_error(
            "policy", error, advice_for(error, where or "", "Check REAPER_POLICY, and whether this identity may read it.")
        )
        return
    warnings = lint.lint_policy(source.policy, source.text, source.name)
    hint = f", {count_noun(len(warnings), 'warning')}: `reaper policy check` shows them" if warnings else ""
    yield ok("policy", f"{source.name} is valid: {count_noun(len(source.policy.rules), 'rule')}{hint}")


def examine_rules(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """The rules that matched nothing in the last report: misspelled, or nothing of theirs is there."""
    rules = opened.policy.policy.rules if opened.policy else []
    report = opened.report
    if not rules or opened.policy is None:
        return
    if report is None or report.run.policy_sha256 != opened.policy.sha256:
        because = "the last report isn't known" if report is None else "the last report was made under another policy"
        yield unknown(
            "policy.rules",
            f"{because}, so it doesn't say which rules match anything",
            "reaper sweep --format json --output report.json && reaper doctor --report report.json",
        )
        return
    used = {finding.rule for finding in report.findings}
    idle = [spec.name for spec in rules if not any(repr(spec.name) in text for text in used)]
    if idle:
        names = first_few([repr(name) for name in idle])
        because = f"{count_noun(len(idle), 'rule')} matched nothing in the last report: {names}"
        yield unknown(
            "policy.rules", because, "If they should, compare their names, tags and globs with `reaper sweep --format csv`."
        )
    else:
        yield ok("policy.rules", "every rule matched something in the last report")


def examine_owners(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """The idle resources of the last report without an address to notify."""
    if opened.report is None:
        return
    idle = [finding for finding in opened.report.findings if finding.state == State.IDLE]
    without = [finding.name for finding in idle if not finding.owner.address]
    if not without:
        yield ok("owners", f"every one of {count_noun(len(idle), 'idle resource')} has an owner's address")
        return
    because = f"{len(without)} of {count_noun(len(idle), 'idle resource')} have no owner's address: {first_few(without)}"
    if context.settings.mode.writes:
        yield to_fix("owners", because, OWNERS_ADVICE)
    else:
        yield ok("owners", f"{because}. That matters above mode audit")
