"""Where the policy's text comes from: a file, an S3 object, a parameter, a blob, or the setting itself."""

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
"""Without a policy of your own: tell about what was idle for 24 hours, stop nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySource:
    """A policy with the text it came from."""

    name: str
    text: str
    policy: Policy

    @property
    def sha256(self) -> str:
        """The hash of the text, for the report."""
        from reaper.policy import yaml_lines

        return yaml_lines.policy_digest(self.text)


def load_policy(where: str | None) -> PolicySource:
    """The policy at `where`, or the built-in one. Raises SettingsError if it cannot be read, PolicyError if it does not validate."""
    from reaper.policy import yaml_lines  # with it pydantic and PyYAML, which no `--help` and no cold start waits for

    name, said = _read_text(where, yaml_lines.MAX_BYTES + 1)
    text = yaml_lines.decode_policy(said, name) if isinstance(said, bytes) else said
    return PolicySource(name=name, text=text, policy=yaml_lines.parse_policy(text, name, kind_names(), _startable_kinds()))


def _startable_kinds() -> list[str]:
    """The kinds that can be started again after a stop."""
    return [kind.name for kind in kinds() if StepName.START in kind.actions]


def _read_text(where: str | None, most: int) -> tuple[str, str | bytes]:
    """Its name, and the policy's text or the first `most` bytes of it."""
    if where is None:
        return "built-in policy", BUILT_IN_POLICY
    if not where.strip():
        raise SettingsError(
            "the policy is an empty text: give a file, s3://, ssm:, a blob's URL or the YAML itself, or leave it out"
        )
    if "\n" in where or where.lstrip().startswith(("version:", "{")):
        return "inline policy", where
    if where.startswith(("s3://", "ssm:")):
        return where, _read_stored("aws", where, most)
    if where.startswith("https://"):
        # Without a signature, which opens the blob: the name stands in errors and logs.
        return where.partition("?")[0], _read_stored("azure", where, most)
    return where, _read_file(where, most)


def _read_file(where: str, most: int) -> bytes:
    """What the file begins with. `most` is one byte more than a policy may have: a longer one is known by that."""
    try:
        with Path(where).open("rb") as file:
            return file.read(most)
    except (OSError, ValueError) as error:
        raise SettingsError(f"policy {short_repr(where)}: cannot be read: {shorten(str(error), MAX_LINE_LENGTH)}") from error


def _read_stored(cloud: str, where: str, most: int) -> bytes:
    """As `_on_disk`."""
    try:
        store = import_module(f"reaper.{cloud}.text_store")
    except ImportError as error:
        raise SettingsError(
            f"policy {where.partition('?')[0]!r}: needs the extra `{cloud}`: pip install 'ml-idle-reaper[{cloud}]' ({error})"
        ) from error
    return bytes(store.read_bytes(where, most))
