"""Manifests: what an action is about to change or remove, stored before it does, and read again to undo it.

Undoing creates what a manifest says, so its form is checked first, and a person sees what it names.

`REAPER_MANIFESTS` is `s3://bucket/prefix`, a blob container's https URL, or a directory; the command line's default is a directory beside
the user's ledger. Each action has one file, `<day>/<run>/<digest of the ID>-<move>-<version of its record>.json`, which is never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from reaper.acting.contract import NOTHING_EARLIER, ActionFunctions, Earlier, Manifest, part_of, unknown_member
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.rows import adapter, comparable_id, parse_document
from reaper.model import Result
from reaper.pending.unfinished import digest_of, run_and_digest
from reaper.record import Act, ManifestReference
from reaper.stores.texts import TextStore, cloud_of, open_texts

OPERATION = "manifest"
NAMED_PARTS = (
    ("role", re.compile(r"arn:[^:]+:iam::\d*:role/.+")),
    ("identity", re.compile(r"/subscriptions/.+/userAssignedIdentities/[^/]+", re.IGNORECASE)),
    ("image", re.compile(r"[^/]+\.ecr\.[^/]+/.+|[^/]+\.azurecr\.[^/]+/.+|.*/environments/.+", re.IGNORECASE)),
    ("bucket", re.compile(r"s3://.+|https://[^/]+\.blob\..+|azureml:.+/datastores/.+", re.IGNORECASE)),
)
"""The parts that a record can name, by how their names look."""
IMAGE_MEMBERS = frozenset({"image", "environmentid"})
"""Members that name an image, however it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The manifests at one place."""

    place: str
    store: TextStore

    def store_manifest(self, manifest: Manifest, version: int) -> ManifestReference:
        """Store it and return its reference. `version`: that of the record that will name it, so that no two attempts share a name.

        Raises CloudError. Then nothing may be changed.
        """
        name = f"{_day(manifest.at)}/{manifest.run}/{digest_of(manifest.id)}-{manifest.action}-{version}.json"
        text = manifest_json(manifest)
        if parse_manifest(text, name).undo_state != manifest.undo_state:
            raise CloudError(Reason.UNREADABLE, OPERATION, "its undo state has values that JSON can't hold")
        return ManifestReference(address=self.store.write(self.place, name, text), sha256=_sha256(text))

    def addresses_of_run(self, run: str) -> list[str]:
        """Of every manifest of the run with exactly that ID. Raises CloudError if they can't be listed."""
        return [address for address in self.store.list_texts(self.place.rstrip("/")) if run_and_digest(address)[0] == run]

    def manifests_of_run(self, run: str) -> list[tuple[ManifestReference, Manifest | CloudError]]:
        """Every manifest of that run with its reference, or why it can't be read. Raises CloudError if they can't be listed."""
        found: list[tuple[ManifestReference, Manifest | CloudError]] = []
        for address in self.addresses_of_run(run):
            try:
                found.append(self.read_unproven(address))
            except CloudError as error:
                found.append((ManifestReference(address=address, sha256=""), error))
        return found

    def stored_lately(self, now: datetime) -> list[str]:
        """The addresses of today and the three days before (UTC), since a schedule may rest at weekends. Raises CloudError if they can't be listed."""
        days = [_day(now - timedelta(days=ago)) for ago in (3, 2, 1, 0)]
        return [address for day in days for address in self.store.list_texts(f"{self.place.rstrip('/')}/{day}")]

    def earlier_action(self, act: Act | None) -> Earlier:
        """The earlier action whose manifest still stands, so that a new manifest can name it. It is named even if it can't be read.

        If all that the last action did was put back, it is the one before that.
        """
        if act is None or act.manifest is None:
            return NOTHING_EARLIER
        last = self._read_earlier(act.manifest)
        if act.result is Result.REFUSED and last.manifest:
            before = previous_manifest(last.manifest)
            return self._read_earlier(before) if before else NOTHING_EARLIER
        return replace(last, is_known=act.result is Result.DONE)

    def _read_earlier(self, reference: ManifestReference) -> Earlier:
        try:
            return Earlier(reference=reference, manifest=self.read_manifest(reference))
        except CloudError:
            return Earlier(reference=reference)

    def read_manifest(self, reference: ManifestReference) -> Manifest:
        """The manifest that was stored there. Raises CloudError, also if it isn't in this place, or has changed since it was stored."""
        found, manifest = self.read_unproven(reference.address)
        if found != reference:
            raise changed_error(reference.address)
        return manifest

    def read_unproven(self, address: str) -> tuple[ManifestReference, Manifest]:
        """Whatever manifest is at the address, with a reference to it as it is now. Raises CloudError, also if it isn't in this place.

        The text of that error names no manifest elsewhere, because nothing there may be used.
        """
        if not self.contains(address):
            raise CloudError(Reason.REFUSED, OPERATION, f"the manifest isn't in REAPER_MANIFESTS={self.place}, so it isn't used")
        text = self.store.read_text(address)
        return ManifestReference(address=address, sha256=_sha256(text)), parse_manifest(text, address)

    def with_continued(self, manifest: Manifest) -> Manifest:
        """The manifest with those of the earlier parts that it went on with. Raises CloudError if one of them can't be used."""
        chain = [manifest]
        while part_of(chain[-1]) > 1:
            previous = previous_manifest(chain[-1])
            if previous is None:
                raise CloudError(Reason.UNREADABLE, OPERATION, "the manifest doesn't name the one that it goes on with")
            chain.append(self.read_manifest(previous))
            if comparable_id(chain[-1].id) != comparable_id(manifest.id) or chain[-1].kind != manifest.kind:
                raise CloudError(Reason.UNREADABLE, OPERATION, f"{previous.address} is about {chain[-1].id}")
        return replace(manifest, continued=tuple(chain[1:]))

    def contains(self, address: str) -> bool:
        """Whether the address is in this place."""
        if cloud_of(address) != cloud_of(self.place):
            return False
        if cloud_of(address) is None:
            try:
                return Path(address).resolve().is_relative_to(Path(self.place).resolve())
            except (OSError, ValueError, RuntimeError):
                return False
        parts, own_parts = _address_parts(address), _address_parts(self.place)
        return (
            len(parts) > len(own_parts)
            and parts[: len(own_parts)] == own_parts
            and not {".", ".."} & set(parts)
            and "?" not in address
        )


def previous_manifest(manifest: Manifest) -> ManifestReference | None:
    """The manifest of an earlier action on the same resource, as the record names it."""
    previous = manifest.undo_state.get("previous")
    return ManifestReference(address=str(previous["address"]), sha256=str(previous["sha256"])) if previous else None


def changed_error(address: str) -> CloudError:
    """The error about a manifest that has another text than the ledger's hash says."""
    because = f"{address} isn't as the reaper stored it, so it isn't used; restore the version that was stored"
    return CloudError(Reason.REFUSED, OPERATION, because)


def is_same_address(one: str, other: str) -> bool:
    """Whether both lead to the same manifest, however they are written."""
    if cloud_of(one) is None and cloud_of(other) is None:
        return Path(one).resolve() == Path(other).resolve()
    return _address_parts(one) == _address_parts(other)


def open_archive(place: str | None, environ: Mapping[str, str]) -> Archive:
    """The archive at `place`. Default: beside the user's own ledger. Raises SettingsError if the place can't be an archive."""
    if not place:
        place = str(Path(opening.default_address(environ).removeprefix("sqlite://")).parent / "manifests")
    address = place.strip()
    if address.startswith("https://") and "?" in address:
        raise SettingsError("REAPER_MANIFESTS: a URL with a signature can't be stored for undoing; use the container's plain URL")
    if "://" in address and not cloud_of(address):
        raise SettingsError(
            f"REAPER_MANIFESTS={address!r}: expected s3://bucket/prefix, a blob container's https URL, or a directory"
        )
    return Archive(place=address, store=open_texts(address, f"manifests at {address} need"))


def manifest_json(manifest: Manifest) -> str:
    """The manifest as JSON."""
    left_out = {"account_name", "blocked_because"}
    return adapter(Manifest).dump_json(manifest, indent=1, exclude={"continued": True, "target": left_out}).decode()


def parse_manifest(text: str, address: str) -> Manifest:
    """The manifest in `text`. For anything else raises CloudError with the address."""
    return parse_document(Manifest, text, f"the manifest {address}", operation=OPERATION)


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _address_parts(address: str) -> list[str]:
    """The host or bucket and each part of the path, with the percent escapes of a blob's URL decoded."""
    text = unquote(address) if cloud_of(address) == "azure" else address
    return [part for part in text.split("/") if part]


def require_own_form(manifest: Manifest, functions: ActionFunctions[Any]) -> None:
    """Raises CloudError unless its record has the members that its kind stores, and it says of the resource what the ID says."""
    members = functions.undo_members.get(manifest.action)
    if members is None:
        raise _refusal(f"a {manifest.action} of kind {manifest.kind} isn't undone")
    if odd := unknown_member(manifest.undo_state, members):
        raise _refusal(f"the manifest's record has the unknown member {odd}, so it isn't used")
    match = functions.id_pattern.fullmatch(manifest.id)
    if match is None:
        raise _refusal(f"the manifest says that its kind is {manifest.kind}, but {manifest.id} is no ID of that kind")
    shown = match.groupdict()
    said = [("account", manifest.target.account, shown["account"]), ("name", manifest.name, name_in(shown))]
    if "region" in shown:
        said += [("region", region, shown["region"]) for region in (manifest.region, manifest.target.region or "")]
    for label, one, other in said:
        if one.casefold() != other.casefold():
            raise _refusal(f"the manifest says that the {label} of {manifest.id} is {one}, so it isn't used")


def name_in(groups: Mapping[str, str]) -> str:
    """The name of a resource, from the groups of its kind's `id_pattern`."""
    return "/".join(text for group, text in groups.items() if group.startswith("name"))


def named_parts(manifest: Manifest) -> list[str]:
    """The roles, identities, images and buckets that the record names, such as `role arn:aws:iam::123456789012:role/x`, each once."""
    texts = list(_texts_in(manifest.undo_state))
    return list(
        dict.fromkeys(
            f"{label} {text}"
            for label, pattern in NAMED_PARTS
            for member, text in texts
            if pattern.fullmatch(text) or (label == "image" and member.lower() in IMAGE_MEMBERS)
        )
    )


def _texts_in(value: object, member: str = "") -> Iterator[tuple[str, str]]:
    """Every text, with the name of its member. The names are texts, too: Azure names identities so."""
    if isinstance(value, str):
        yield member, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield "", key
            yield from _texts_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner, member)


def _refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "restore", text)
