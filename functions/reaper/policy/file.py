"""The policy from where it is kept: a file, an S3 object, a parameter, a blob, or the setting itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from reaper.errors import PolicyError, SettingsError
from reaper.extras import install_command
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
        """The hash that reports and plan files carry to name their policy."""
        return policy_digest(self.text)


def policy_digest(text: str) -> str:
    """The hash of a policy's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_policy(where: str | None) -> PolicySource:
    """The policy at `where`, or the built-in one. Raises SettingsError if it can't be read, PolicyError if it isn't valid."""
    from reaper.policy import parse, yaml_lines  # these load pydantic and PyYAML, which `--help` and cold starts don't need

    name, content = _read_content(where, yaml_lines.MAX_BYTES + 1)
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        problem = yaml_lines.TOO_LONG if len(content) > yaml_lines.MAX_BYTES else f"not valid UTF-8: {error}"
        raise PolicyError([f"{name}:1: {problem}"]) from error
    startable = [kind.name for kind in kinds() if StepName.START in kind.actions]
    return PolicySource(where=where, name=name, text=text, policy=parse.parse_policy(text, name, kind_names(), startable))


def _read_content(where: str | None, max_bytes: int) -> tuple[str, str | bytes]:
    """The policy's name, and its text or the first `max_bytes` of it: one more than a policy may have."""
    if where is None:
        return "built-in policy", BUILT_IN_POLICY
    if not where.strip():
        raise SettingsError(
            "the policy is empty; set a file, s3:// or ssm: address, blob URL or the YAML itself, or leave it unset"
        )
    if "\n" in where or where.lstrip().startswith(("version:", "{")):
        return "inline policy", where
    return read_location(where, max_bytes, "policy")


def read_location(where: str, max_bytes: int, what: str, folder: Path | None = None) -> tuple[str, bytes]:
    """The name and the first `max_bytes` of what is at an address or path, from `folder`. Raises SettingsError that begins with `what`."""
    if where.startswith(("s3://", "ssm:")):
        return where, _read_stored("aws", where, max_bytes, what)
    if where.startswith("https://"):
        # Errors and logs name the blob without its signature, which grants access.
        return where.partition("?")[0], _read_stored("azure", where, max_bytes, what)
    try:
        with (folder or Path()).joinpath(where).open("rb") as file:
            return where, file.read(max_bytes)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{what} {short_repr(where)}: can't be read: {shorten(str(error), MAX_LINE_LENGTH)}") from error


def folder_of(where: str | None) -> Path:
    """The folder of the policy at `where`, from which its paths go; the working directory if the policy isn't a file."""
    is_file = where and "\n" not in where and not where.lstrip().startswith(("version:", "{", "s3://", "ssm:", "https://"))
    return Path(where).parent if where and is_file else Path()


def _read_stored(cloud: str, where: str, max_bytes: int, what: str) -> bytes:
    try:
        store = import_module(f"reaper.{cloud}.stores.texts")
    except ImportError as error:
        needed = f"needs an extra: {install_command(cloud)} ({error})"
        raise SettingsError(f"{what} {where.partition('?')[0]!r}: {needed}") from error
    try:
        return bytes(store.read_bytes(where, max_bytes))
    except SettingsError as error:
        raise SettingsError(f"{what} {error}") from error
