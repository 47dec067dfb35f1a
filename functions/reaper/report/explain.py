"""All that one sweep knows of one resource, for the question: why was it, or was it not, called idle?"""

from __future__ import annotations

from reaper.duration import spell, text
from reaper.model import Finding, Report
from reaper.report.json import stamp
from reaper.report.summary import clean


def render(report: Report, wanted: str) -> str | None:
    """The explanation of every resource with that id or name; None when there is none. Ids match case-insensitively."""
    found = [f for f in report.findings if wanted.lower() == f.case.resource.id.lower() or wanted == f.case.resource.name]
    return "\n".join(_one(f) for f in found) if found else None


def _one(found: Finding) -> str:
    resource, rule, verdict = found.case.resource, found.case.rule, found.case.verdict
    tags = (
        "could not be read"
        if resource.tags is None
        else ", ".join(f"{clean(k)}={clean(v)}" for k, v in resource.tags.items()) or "none"
    )
    price = f"${found.price.usd_per_hour:.4f}/h ({found.price.source}, {found.price.as_of})" if found.price else "unknown"
    idle = f", idle for {text(verdict.idle_for)}" if verdict.idle_for else ""
    lines = [
        f"{clean(resource.name)}",
        f"  id        {clean(resource.id)}",
        f"  kind      {resource.kind} in {resource.target.account} {resource.region}, {clean(resource.size) or 'size unknown'}, {resource.status}",
        f"  created   {stamp(resource.created) or 'unknown'}, changed {stamp(resource.changed) or 'unknown'}",
        f"  price     {price}",
        f"  tags      {tags}",
        f"  rule      {rule.name}: at most {rule.action}, idle after {spell(rule.idle_after)}, grace {spell(rule.grace)}",
        *(f"            {note}" for note in rule.notes),
        *([f"  protected {rule.protected}"] if rule.protected else []),
        *(
            _signal(
                f"{e.signal} {e.subject}".strip(),
                e.role,
                f"{e.points} points, peak {e.peak}, last busy {stamp(e.last_busy)}",
                e.complete,
            )
            for e in found.evidence
        ),
        f"  verdict   {verdict.state}{f' ({verdict.confidence})' if verdict.confidence else ''}{idle}: {clean(verdict.because)}",
        f"  next      {found.step.move}: {found.step.because}",
        f"  owner     {clean(found.owner.address or 'nobody')} ({clean(found.owner.source)})",
    ]
    return "\n".join(lines) + "\n"


def _signal(name: str, role: str, what: str, complete: bool) -> str:
    return f"  {role:<9} {clean(name)}: {what}{'' if complete else ', INCOMPLETE'}"
