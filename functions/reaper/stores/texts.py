"""Where texts are stored by name: in S3, in blobs or in a folder.

`<cloud>/stores/texts` and `FolderTexts` have the same functions, those of `TextStore`.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from reaper.errors import CloudError, Reason, SettingsError
from reaper.extras import install_command

OPERATION = "manifest"
"""The operation in errors about files: only manifests are stored in folders."""


class TextStore(Protocol):
    """Texts by address: a place, a slash and a name. Every operation raises CloudError."""

    EXISTS_CODES: frozenset[str]
    """The codes of the error if `write` finds the name taken."""
    MISSING_CODES: frozenset[str]
    """The codes of the error if `read_text` finds nothing there. A missing place has another code."""

    def write(self, place: str, name: str, text: str) -> str:
        """Store the text as `<place>/<name>` and return its address. Never overwrites anything."""
        ...

    def replace_text(self, place: str, name: str, text: str) -> None:
        """Store the text as `<place>/<name>`, whatever is there now."""
        ...

    def read_text(self, address: str) -> str:
        """The text at an address that `write` returned."""
        ...

    def list_texts(self, place: str) -> list[str]:
        """The addresses of everything stored under `place`, sorted."""
        ...


class FolderTexts:
    """Texts as files on one machine, which only their user can read."""

    EXISTS_CODES = frozenset({"FileExistsError"})
    MISSING_CODES = frozenset({"FileNotFoundError"})

    def write(self, place: str, name: str, text: str) -> str:
        return _write_file(Path(place, name), text, os.O_EXCL)

    def replace_text(self, place: str, name: str, text: str) -> None:
        _write_file(Path(place, name), text, os.O_TRUNC)

    def read_text(self, address: str) -> str:
        try:
            return Path(address).read_bytes().decode()
        except (OSError, ValueError) as error:
            is_gone = isinstance(error, FileNotFoundError) and Path(address).parent.is_dir()  # else its place isn't there
            reason = Reason.GONE if is_gone else Reason.UNREADABLE
            raise CloudError(reason, OPERATION, f"{address} can't be read: {error}", code=type(error).__name__) from error

    def list_texts(self, place: str) -> list[str]:
        return sorted(str(path) for path in Path(place).rglob("*.json"))


def _write_file(path: Path, text: str, flag: int) -> str:
    """Write the file and return its address. It is on the disk once this returns."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        raise CloudError(Reason.REFUSED, OPERATION, f"{path} can't be written: {error}", code=type(error).__name__) from error
    return str(path)


def cloud_of(address: str) -> str | None:
    """The cloud whose store has that address; None for a file or directory."""
    return "aws" if address.startswith("s3://") else "azure" if address.startswith("https://") else None


def open_texts(address: str, subject: str) -> TextStore:
    """The store of that address. Raises SettingsError, which begins with the `subject`, if the SDK of its cloud isn't installed."""
    cloud = cloud_of(address)
    if cloud is None:
        return FolderTexts()
    try:
        return cast(TextStore, import_module(f"reaper.{cloud}.stores.texts"))
    except ImportError as error:
        raise SettingsError(f"{subject} an extra: {install_command(cloud)} ({error})") from error
