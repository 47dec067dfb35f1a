"""What to install for a missing extra: from where this very installation came, and never by a name that no registry has."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reaper import __version__
from reaper.extras import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[1]
PIP = f"{shlex.quote(sys.executable)} -m pip install"
BY_NAME = re.compile(rf"(?:pip install|pipx install|pipx run|uvx|uv add|uv tool install)\b[^\n]*[\s'\"]{DISTRIBUTION}(?![-\w./])")


def installed_from(folder: Path, origin: dict | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that Python finds before this one, with the record that pip and uv write of its origin."""
    info = folder / f"ml_idle_reaper-{__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ml-idle-reaper\nVersion: {__version__}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(("editable", "option"), [(True, "--editable "), (False, "")], ids=["editable", "plain"])
def test_a_clone_is_named_by_its_path(editable: bool, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed_from(tmp_path, {"url": clone.as_uri(), "dir_info": {"editable": editable}}, monkeypatch)
    assert install_command("aws", "azure") == f"{PIP} {option}'{clone}[aws,azure]'"


def test_a_wheel_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wheel = tmp_path / f"ml_idle_reaper-{__version__}-py3-none-any.whl"
    wheel.touch()
    installed_from(tmp_path, {"url": wheel.as_uri(), "archive_info": {}}, monkeypatch)
    assert install_command("demo") == f"{PIP} '{wheel}[demo]'"


@pytest.mark.parametrize("origin", [None, {"url": "file:///gone.whl", "archive_info": {}}, {"url": "https://example.com/x.whl"}])
def test_without_its_origin_both_ways_are_named(origin: dict | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    installed_from(tmp_path, origin, monkeypatch)
    wheel = f"'ml_idle_reaper-{__version__}-py3-none-any.whl[chat]'"
    assert install_command("chat") == f"{PIP} '.[chat]' in a clone, or {wheel} in the folder of that file"


def test_nothing_says_to_install_it_by_name_from_a_registry():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    texts = {name: (ROOT / name).read_text(errors="replace") for name in names if not name.endswith((".png", ".gz"))}
    assert [name for name, text in texts.items() if BY_NAME.search(text)] == []
    assert BY_NAME.search(f"pip install '{DISTRIBUTION}[demo]'")


def test_a_missing_moto_is_one_line_with_a_command(tmp_path: Path):
    hide = "import sys; sys.modules['moto'] = None; sys.argv = ['reaper', 'demo', *sys.argv[1:]]; from reaper.cli.main import main; main()"
    for option in ([], ["--serve"], ["--story"]):
        done = subprocess.run([sys.executable, "-c", hide, *option], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
        assert f"reaper demo needs an extra: {install_command('demo')} (" in done.stderr
