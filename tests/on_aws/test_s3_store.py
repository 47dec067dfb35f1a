from __future__ import annotations

from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import boto3
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from acting.test_manifest import SAVED
from fakes import run_stores
from reaper.acting import manifest
from reaper.aws.stores import texts
from reaper.errors import CloudError, PolicyError, Reason
from reaper.policy import file
from reaper_sandbox.aws.fault import denied, error, on
from reaper_sandbox.aws.server import Server

BLOCK = b"#" * 1_000_000
PLACE = "s3://manifests/reaper/"


@pytest.fixture(autouse=True)
def bucket(server: Server) -> None:
    boto3.client("s3").create_bucket(Bucket="manifests")


def test_a_stored_file_is_read_back_from_its_address():
    address = texts.write(PLACE, "r1/endpoint/a b+ü.json", '{"a": "ü"}')
    assert address == "s3://manifests/reaper/r1/endpoint/a b+ü.json"
    assert texts.read_text(address) == '{"a": "ü"}'


def test_a_policy_read_fetches_only_the_requested_length():
    s3 = boto3.client("s3")
    for key, body in (("long", b"version: 1\n" + b"#" * 300_000), ("empty", b""), ("fits", b"version: 1\n")):
        s3.put_object(Bucket="manifests", Key=key, Body=body)
    assert texts.read_bytes("s3://manifests/long", 11) == b"version: 1\n"
    assert texts.read_bytes("s3://manifests/empty", 11) == b""
    assert file.load_policy("s3://manifests/fits").text == "version: 1\n"
    with pytest.raises(PolicyError, match="longer than 262,144 bytes"):
        file.load_policy("s3://manifests/long")


def test_a_policy_of_many_megabytes_is_not_fetched_whole(monkeypatch: pytest.MonkeyPatch):
    sent: list[int] = []

    class Flood(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(100 * len(BLOCK)))
            self.end_headers()
            with suppress(OSError):
                sent.extend(self.wfile.write(BLOCK) for _ in range(100))

        def log_message(self, *parts: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Flood) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        assert len(texts.read_bytes("s3://manifests/flood", 262_145)) == 262_145
        server.shutdown()
    assert len(sent) < 50


def test_an_existing_file_is_never_overwritten():
    address = texts.write(PLACE, "one.json", "first")
    with pytest.raises(CloudError, match="a file of that name already exists"):
        texts.write(PLACE, "one.json", "second")
    assert texts.read_text(address) == "first"


def test_a_listing_has_every_file_under_its_prefix_and_no_other():
    wanted = sorted(texts.write(PLACE, f"r/{n:04}.json", "x") for n in range(0, 1003, 250))
    stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for n in set(range(1003)) - set(range(0, 1003, 250)):
        stored.put_object("manifests", f"reaper/r/{n:04}.json", b"x")
        wanted.append(f"{PLACE}r/{n:04}.json")
    texts.write("s3://manifests/reaper-2", "other.json", "x")
    assert texts.list_texts("s3://manifests/reaper") == sorted(wanted)


def test_a_place_without_a_prefix_is_the_whole_bucket():
    assert texts.list_texts("s3://manifests") == []
    address = texts.write("s3://manifests", "a.json", "x")
    assert texts.list_texts("s3://manifests") == [address]


def test_a_missing_file_raises_gone():
    with pytest.raises(CloudError) as raised:
        texts.read_text("s3://manifests/none.json")
    assert raised.value.reason is Reason.GONE


@pytest.mark.parametrize(
    ("operation", "permission"),
    [("PutObject", "s3:PutObject"), ("GetObject", "s3:GetObject"), ("ListObjectsV2", "s3:ListBucket")],
)
def test_denied_names_the_permission(server: Server, operation: str, permission: str):
    address = texts.write(PLACE, "one.json", "x")
    server.rules.append(on(operation, denied()))
    calls = {
        "PutObject": lambda: texts.write(PLACE, "two.json", "x"),
        "GetObject": lambda: texts.read_text(address),
        "ListObjectsV2": lambda: texts.list_texts(PLACE),
    }
    with pytest.raises(CloudError) as raised:
        calls[operation]()
    assert (raised.value.reason, raised.value.missing) == (Reason.DENIED, permission)


def test_a_failing_bucket_is_reported(server: Server):
    server.rules.append(on("PutObject", error(400, "InvalidRequest", "no")))
    with pytest.raises(CloudError, match="InvalidRequest"):
        texts.write(PLACE, "one.json", "x")


def test_an_invalid_address_is_refused():
    with pytest.raises(CloudError, match="not an address"):
        texts.write("https://example.com", "one.json", "x")


def test_a_manifest_in_a_bucket_is_none_of_a_folder_archive(tmp_path: Path):
    elsewhere, folder = manifest.open_archive("s3://manifests/reaper", {}), manifest.open_archive(str(tmp_path), {})
    stored = elsewhere.store_manifest(SAVED, 1)
    assert elsewhere.read_manifest(stored) == SAVED
    with pytest.raises(CloudError, match="isn't in REAPER_MANIFESTS"):
        folder.read_manifest(stored)


def test_a_run_is_stored_in_a_bucket():
    run_stores.check_store("s3://manifests/runs/")
    run_stores.check_missing_place("s3://elsewhere/runs")


def test_an_object_that_is_not_text_is_unreadable():
    boto3.client("s3").put_object(Bucket="manifests", Key="odd", Body=b"\xff\xfe")
    with pytest.raises(CloudError, match="s3://manifests/odd can't be read") as caught:
        texts.read_text("s3://manifests/odd")
    assert caught.value.reason is Reason.UNREADABLE
