"""The manifests of earlier actions that a later one goes on with: of the first of two variants, of the components of a host.

A record's `part` above 1 says that it goes on with the action whose manifest `previous` names, and undoing it brings back both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reaper.actions import manifest as archive
from reaper.actions.contract import Earlier, Manifest
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Resource


def part_number(resource: Resource, earlier: Earlier, continues: Callable[[Manifest], bool]) -> int:
    """Which part of one undertaking the next action on it is: 1 if it continues none.

    Nothing is known of an earlier manifest that can't be read from here, such as one on another machine, or that must not be, because it
    lies outside REAPER_MANIFESTS. Then the count begins again; the new manifest's `previous` names it all the same, and undo says how to
    restore what it holds.
    """
    address = earlier.manifest_address if earlier.is_readable else None
    try:
        before = read_manifest(address, resource.id) if address else None
    except CloudError:
        return 1
    return _part_of_record(before.undo_state) + 1 if before and continues(before) else 1


def read_chain(manifest: Manifest, failed: list[str]) -> list[Manifest]:
    """The manifest and those it continues, the latest first. If one can't be read, the chain ends and `failed` gets a sentence."""
    manifests = [manifest]
    try:
        while _part_of_record(manifests[-1].undo_state) > 1 and len(manifests) < _part_of_record(manifest.undo_state):
            manifests.append(read_manifest(manifests[-1].undo_state["previous"], manifest.id))
    except CloudError as error:
        failed.append(f"Not restored: what the previous action removed ({error}).")
    return manifests


def read_manifest(address: str, resource_id: str) -> Manifest:
    """The manifest at that address. Raises CloudError where it can't be read from here, or is about something else."""
    try:
        manifest = archive.open_archive(address, {}).read_manifest(address)
    except SettingsError as error:
        raise CloudError(Reason.REFUSED, "manifest", str(error)) from error
    if manifest.id != resource_id:
        raise CloudError(Reason.UNREADABLE, "manifest", f"{address} is about {manifest.id}")
    return manifest


def _part_of_record(record: Mapping[str, Any]) -> int:
    return int(record.get("part", 1))
