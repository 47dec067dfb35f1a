"""Writes everything in the docs that follows from the kinds: docs/kinds.md, docs/permissions.md and the README's short table of kinds.

`--check` writes nothing and fails if any of them is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reaper.aws import targets
from reaper.kind import ActionSpec, Kind
from reaper.model import StepName
from reaper.registry import action_functions, kinds

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
TABLE_START, TABLE_END = "<!-- kinds: written by make docs -->\n", "<!-- end of kinds -->\n"
ASSIGNED = {"Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"}
"""What is granted per identity, and not in the role for acting."""
KINDS_HEAD = """# Kinds

What a sweep finds, which signals count as activity, and which prove that silence means idle. `make docs` generates this page from the code.

`proven` idle: every activity signal was silent while the heartbeat was alive over the same hours. `likely` idle: only indirect evidence.
It leads to notices only, unless a rule says `act_on: likely`. Without either the verdict is `unknown`, and `unknown` never leads to an action.

The reaper acts in mode `enforce` only. Each action needs its own permissions beyond those for reading. [permissions.md](permissions.md) has them as
lists to paste.
"""
PERMISSIONS_HEAD = """# Permissions

Everything the kinds need, as lists to paste into `template.yaml` and the Bicep roles after you add a kind.
`make docs` generates this page from the code. Tests compare the template and the roles with the same code.
"""


def kinds_page() -> str:
    """docs/kinds.md."""
    rows = "".join(f"| [`{k.name}`](#{k.name}) | {k.title} | {_can_be(k)} |\n" for k in kinds())
    table = f"\n| kind | resource | can be |\n| --- | --- | --- |\n{rows}"
    return KINDS_HEAD + table + "".join(f"\n{_kind_section(kind)}" for kind in kinds())


def _kind_section(kind: Kind[Any]) -> str:
    permissions = "\n".join(f"- `{p}`" for p in kind.permissions)
    return (
        f"## `{kind.name}`\n\n[{kind.title}]({kind.docs})\n\n"
        f"| | |\n| --- | --- |\n| activity | {kind.activity} |\n| heartbeat | {kind.heartbeat} |\n| otherwise | {kind.without_proof} |\n\n"
        f"Permissions:\n\n{permissions}\n{_actions(kind)}"
    )


def _actions(kind: Kind[Any]) -> str:
    """Its actions with what each does, how to undo it and what it needs. A kind that only notifies gets one sentence."""
    if not kind.actions:
        return "\nThe reaper only sends notices about it.\n"
    needed = ", ".join(f"`{p}`" for p in sorted(_undo_permissions(kind) - set(kind.permissions)))
    undoing = f"\nUndoing needs, beyond those for reading: {needed}\n" if needed else ""
    return "".join(_action(action, spec) for action, spec in kind.actions.items()) + undoing


def _action(action: StepName, spec: ActionSpec) -> str:
    permissions = ", ".join(f"`{p}`" for p in spec.permissions)
    billed = f" Still billed after it: {spec.still_billed}." if spec.still_billed else ""
    return f"\n`{action}` {spec.effect}.{billed} Undoing it {spec.undo}. Needs: {permissions}\n"


def _undo_permissions(kind: Kind[Any]) -> set[str]:
    return set(action_functions(kind.name).undo_permissions) if kind.actions else set()


def permissions_page() -> str:
    """docs/permissions.md."""
    reading = {cloud: {p for kind in kinds(cloud) for p in kind.permissions} for cloud in ("aws", "azure")}
    reading["aws"] |= set(targets.PERMISSIONS)
    acting = {
        cloud: {p for kind in kinds(cloud) for spec in kind.actions.values() for p in spec.permissions} - reading[cloud]
        for cloud in reading
    }
    undoing = {cloud: {p for kind in kinds(cloud) for p in _undo_permissions(kind)} - reading[cloud] for cloud in reading}
    return PERMISSIONS_HEAD + "".join(
        (
            _section("AWS: reading (`AuditPolicy` in template.yaml)", _yaml(reading["aws"])),
            _section("AWS: acting (`EnforcePolicy` in template.yaml)", _yaml(acting["aws"])),
            _section("AWS: undoing (the person who runs `reaper restore` or `reaper undo`)", _yaml(undoing["aws"])),
            _section("Azure: reading (`actions` in infra/modules/role.bicep)", _bicep(reading["azure"])),
            _section("Azure: acting (`actions` in infra/modules/enforce.bicep)", _bicep(acting["azure"] - ASSIGNED)),
            _section("Azure: acting, on each identity that an endpoint has (infra/modules/assign.bicep)", _bicep(ASSIGNED)),
            _section("Azure: undoing (the person who runs `reaper restore` or `reaper undo`)", _bicep(undoing["azure"])),
        )
    )


def _section(title: str, block: str) -> str:
    return f"\n## {title}\n\n{block}"


def _yaml(permissions: Iterable[str]) -> str:
    return "```text\n" + "".join(f"- {p}\n" for p in sorted(permissions, key=str.lower)) + "```\n"


def _bicep(permissions: Iterable[str]) -> str:
    return "```text\n" + "".join(f"'{p}'\n" for p in sorted(permissions, key=str.lower)) + "```\n"


def readme() -> str:
    """The README with its table of kinds between the markers."""
    head, _, rest = README.read_text().partition(TABLE_START)
    _, _, tail = rest.partition(TABLE_END)
    return f"{head}{TABLE_START}{_table()}{TABLE_END}{tail}"


def _table() -> str:
    rows = "".join(f"| {k.title} | {_stop(k)} | {_besides(k)} |\n" for k in kinds())
    return f"| [what it checks](docs/kinds.md) | `stop` | can also be |\n| --- | --- | --- |\n{rows}"


def _stop(kind: Kind[Any]) -> str:
    """What a stop does to it, and what may still be billed then."""
    spec = kind.actions.get(StepName.STOP)
    if spec is None:
        return "reported only"
    return f"{spec.participle}; still billed: {spec.still_billed}" if spec.still_billed else spec.participle


def _besides(kind: Kind[Any]) -> str:
    return ", ".join(spec.participle for action, spec in kind.actions.items() if action is not StepName.STOP)


def _can_be(kind: Kind[Any]) -> str:
    return ", ".join(spec.participle for spec in kind.actions.values()) or "reported only"


def pages() -> Mapping[Path, str]:
    """Every page with its text."""
    return {DOCS / "kinds.md": kinds_page(), DOCS / "permissions.md": permissions_page(), README: readme()}


if __name__ == "__main__":
    for path, text in pages().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(DOCS.parent)} is out of date: run `make docs`")
