"""The README's first screen, pasted line by line by someone who has only what it asks for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SCREEN = README.split("\n## Try it\n")[1].split("\n## ")[0]
CLONE = f"""#!/bin/sh
[ "$*" = "clone https://github.com/ml-idle-reaper/ml-idle-reaper" ] || exit 9
mkdir ml-idle-reaper && ln -s {shlex.quote(str(ROOT))}/* ml-idle-reaper/
rm ml-idle-reaper/demo 2>/dev/null
ln -s {shlex.quote(sys.prefix)} ml-idle-reaper/.venv
"""
"""`git clone` without a network: links to these very files, and to the environment of the tests."""
MAKE = f'#!/bin/sh\nexec {shutil.which("make")} --assume-old=.venv/.demo "$@"\n'
"""`make` that finds that environment filled, or it would install into it."""


def test_the_readme_is_short_enough_to_be_read():
    assert len(README.encode()) <= 9_000


def test_prerequisites_come_before_the_first_command():
    before, _, after = SCREEN.partition("```console\n")
    assert after
    assert "Python 3.11" in before
    assert (
        README.index("## Try it")
        < README.index("## Why you can trust it")
        < README.index("## Practice")
        < README.index("## Deploy")
    )


def test_the_first_screen_works_as_pasted(tmp_path: Path):
    (home := tmp_path / "home").mkdir()
    (tools := tmp_path / "tools").mkdir()
    for name, script in {"git": CLONE, "make": MAKE}.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    lines = re.findall(r"^\$ (.*)$", SCREEN, re.MULTILINE)
    assert lines[1:3] == ["make demo", 'export PATH="$PWD/.venv/bin:$PATH"']
    environ = {"HOME": str(home), "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-e"], input="\n".join(lines) + "\n", env=environ, cwd=home,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    demo = home / "ml-idle-reaper/demo"
    assert {"report.html", "report.json", "mail"} <= {path.name for path in demo.iterdir()}
    assert not demo.is_symlink()
    assert done.stdout.rindex("verdict   idle (proven)") > done.stdout.index("Idle now"), (
        "the last line explains what the second one found"
    )
