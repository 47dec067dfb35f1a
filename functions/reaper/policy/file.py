"""The policy's text from where it is kept: a file, an S3 object, a parameter, a blob, or the setting itself."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from reaper.errors import SettingsError
from reaper.model import StepName
from reaper.registry import kind_names, kinds
from reaper.text import MAX_LINE_LENGTH, short_repr, shorten

if TYPE_CHECKING:
    from reaper.policy.schema import Policy

BUILT_IN_POLICY = "version: 1\n"
"""The policy if none is set: notify about what was idle for 24 hours, stop nothing."""


POLICY_CHANGED = "the policy has changed since this run began; the next run goes by the new one"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySource:
    """A policy with the text it came from. `where`: the setting that led to it, for loading it again."""

    where: str | None = None
    name: str
    text: str
    policy: Policy

    @property
    def sha256(self) -> str:
        """The hash of the text, for reports."""
        from reaper.policy import parse

        return parse.policy_digest(self.text)


def load_policy(where: str | None) -> PolicySource:
    """The policy at `where`, or the built-in one. Raises SettingsError if it can't be read, PolicyError if it isn't valid."""
    from reaper.policy import parse, yaml_lines  # these load pydantic and PyYAML, which `--help` and cold starts don't need

    name, content = _read_content(where, yaml_lines.MAX_BYTES + 1)
    text = parse.decode_policy(content, name) if isinstance(content, bytes) else content
    policy = parse.parse_policy(text, name, kind_names(), _startable_kinds())
    return PolicySource(where=where, name=name, text=text, policy=policy)


def _startable_kinds() -> list[str]:
    """The kinds that can be restarted after a stop."""
    return [kind.name for kind in kinds() if StepName.START in kind.actions]


def _read_content(where: str | None, max_bytes: int) -> tuple[str, str | bytes]:
    """The policy's name, and its text or the first `max_bytes` of it."""
    if where is None:
        return "built-in policy", BUILT_IN_POLICY
    if not where.strip():
        raise SettingsError(
            "the policy is empty; set a file, s3:// or ssm: address, blob URL or the YAML itself, or leave it unset"
        )
    if "\n" in where or where.lstrip().startswith(("version:", "{")):
        return "inline policy", where
    if where.startswith(("s3://", "ssm:")):
        return where, _read_stored("aws", where, max_bytes)
    if where.startswith("https://"):
        # Errors and logs name the blob without its signature, which grants access.
        return where.partition("?")[0], _read_stored("azure", where, max_bytes)
    return where, _read_file(where, max_bytes)


def _read_file(where: str, max_bytes: int) -> bytes:
    """The start of the file. `max_bytes` is one more than a policy may have, so that a longer one is recognized."""
    try:
        with Path(where).open("rb") as file:
            return file.read(max_bytes)
    except (OSError, ValueError) as error:
        raise SettingsError(f"policy {short_repr(where)}: can't be read: {shorten(str(error), MAX_LINE_LENGTH)}") from error


def _read_stored(cloud: str, where: str, max_bytes: int) -> bytes:
    """The same from a cloud's store."""
    try:
        store = import_module(f"reaper.{cloud}.stores.texts")
    except ImportError as error:
        raise SettingsError(
            f"policy {where.partition('?')[0]!r}: needs the extra `{cloud}`; pip install 'ml-idle-reaper[{cloud}]' ({error})"
        ) from error
    return bytes(store.read_bytes(where, max_bytes))
