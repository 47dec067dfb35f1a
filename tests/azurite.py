"""Azurite's table and blob services for tests: fetched once with npm into build/azurite, started on a free port, gone with the test run.

https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every Azurite has, published by Microsoft; it opens nothing else."""
HOME = Path(__file__).parents[1] / "build" / "azurite"
PROGRAMS = Path("node_modules", "azurite", "dist", "src")


class Missing(Exception):
    """Azurite cannot be had here; the text says why."""


@contextmanager
def tables() -> Iterator[str]:
    """The connection string of a running table service. Raises Missing where there is none to be had."""
    with _running("table") as port:
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint};"


@contextmanager
def blobs(certificate: Path, key: Path) -> Iterator[str]:
    """The address of a running blob service that speaks TLS and takes bearer tokens. Raises Missing where there is none to be had."""
    with _running("blob", "--oauth", "basic", "--cert", str(certificate), "--key", str(key)) as port:
        yield f"https://127.0.0.1:{port}/{ACCOUNT}"


@contextmanager
def _running(service: str, *more: str) -> Iterator[int]:
    program = _fetched() / service / "main.js"
    with tempfile.TemporaryDirectory(prefix="azurite-") as folder, tempfile.TemporaryFile() as log:
        port = _free_port()
        options = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        where = [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port)]
        process = subprocess.Popen(["node", str(program), *options, *where, *more], stdout=log, stderr=log, cwd=folder)
        try:
            _wait(process, port)
            yield port
        finally:
            process.terminate()
            process.wait(timeout=20)


def _fetched() -> Path:
    """The folder of its programs, fetched beside its place and then moved there, so that two test runs at once do not meet."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Missing("node and npm are not installed")
    if (HOME / PROGRAMS).exists():
        return HOME / PROGRAMS
    HOME.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="azurite-", dir=HOME.parent))
    command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), f"azurite@{VERSION}"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"npm install azurite@{VERSION} took longer than {error.timeout} s") from error
    if completed.returncode:
        raise Missing(f"npm install azurite@{VERSION} failed: {completed.stderr.strip()[-300:]}")
    if not HOME.exists():
        folder.rename(HOME)
    return HOME / PROGRAMS


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Missing(f"azurite ended at once with status {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise Missing("azurite did not listen within 60 s")
