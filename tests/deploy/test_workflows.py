"""The workflows on GitHub: what they run exists and runs here, what they use is pinned, and what they may is as little as they need."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github"
TEXTS = {path.name: path.read_text() for path in sorted((FOLDER / "workflows").glob("*.yml"))}
WORKFLOWS: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [
    pytest.param(workflow, job, id=f"{name} {id_}")
    for name, workflow in WORKFLOWS.items()
    for id_, job in workflow["jobs"].items()
]
STEPS = [step for workflow in WORKFLOWS.values() for job in workflow["jobs"].values() for step in job["steps"]]
RUNS = sorted({step["run"] for step in STEPS if "run" in step})
MAKEFILE = (ROOT / "Makefile").read_text()


def stub(folder: Path, name: str) -> Path:
    """A program that writes down how it was called, a line for each argument."""
    program = folder / name
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> "$CALLED"\n')
    program.chmod(0o755)
    return program


def run_step(command: str, folder: Path, **environ: str) -> list[str]:
    """Run a step as a runner does; the arguments that its stubs were called with."""
    called = folder / "called"
    called.touch()
    settings = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CALLED": str(called)} | environ
    subprocess.run(["bash", "-e", "-c", command], cwd=ROOT if "make" in command else folder, env=settings, check=True, timeout=60)
    return called.read_text().splitlines()


@pytest.mark.parametrize("command", RUNS)
def test_each_step_is_one_command_without_expressions(command: str):
    """An expression in a script is how a branch's name becomes a command."""
    assert len(command.splitlines()) == 1
    assert "${{" not in command


@pytest.mark.parametrize("command", [run for run in RUNS if run.startswith("make ")])
def test_every_target_of_a_step_exists(command: str):
    target = command.split()[1]
    assert re.search(rf"^{target}:.*##", MAKEFILE, re.MULTILINE)
    assert re.search(rf"^\.PHONY:.* {target}\b", MAKEFILE, re.MULTILINE)


def test_the_bicep_step_compiles_every_file(tmp_path: Path):
    """With a compiler that only writes down what it is asked."""
    stub(tmp_path, "az")
    assert "make bicep" in RUNS
    called = run_step("make bicep", tmp_path)
    built = {path.relative_to(ROOT).as_posix() for end in ("bicep", "bicepparam") for path in (ROOT / "infra").glob(f"*.{end}")}
    assert {argument for argument in called if argument.startswith("infra/")} == built
    assert called[:5] == ["bicep", "build", "--stdout", "--file", "infra/main.bicep"]


def test_a_bicep_file_that_does_not_compile_fails_the_step(tmp_path: Path):
    (tmp_path / "az").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "az").chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError):
        run_step("make bicep", tmp_path)


def test_a_release_publishes_every_file_that_was_built(tmp_path: Path):
    [command] = [run for run in RUNS if run.startswith("gh release create")]
    stub(tmp_path, "gh")
    (tmp_path / "dist").mkdir()
    for name in ("a.whl", "b.zip"):
        (tmp_path / "dist" / name).touch()
    called = run_step(command, tmp_path, GITHUB_REF_NAME="v1.2.3", GITHUB_REPOSITORY="o/r", GH_TOKEN="t")
    assert called[:5] == ["release", "create", "v1.2.3", "--repo", "o/r"]
    assert called[-2:] == ["dist/a.whl", "dist/b.zip"]
    assert "--verify-tag" in called


def test_actions_are_pinned_by_commit_and_name_their_version():
    used = re.findall(r"uses: (\S+)(.*)", "".join(TEXTS.values()))
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert len({action for action, _ in used}) == len({action.partition("@")[0] for action, _ in used}), "one version of each"


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_a_job_may_write_only_if_it_runs_nothing_of_the_repository(workflow: dict[str, Any], job: dict[str, Any]):
    rights = job.get("permissions", workflow["permissions"])
    if set(rights.values()) <= {"read"}:
        return
    assert rights == {"contents": "write", "id-token": "write", "attestations": "write"}
    assert not [step for step in job["steps"] if "checkout" in step.get("uses", "") or "make" in step.get("run", "")]


@pytest.mark.parametrize("step", [step for step in STEPS if "checkout" in step.get("uses", "")])
def test_no_checkout_leaves_its_token_behind(step: dict[str, Any]):
    assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_every_job_ends_by_itself(workflow: dict[str, Any], job: dict[str, Any]):
    assert job["timeout-minutes"] <= 60


def test_the_tests_run_on_every_supported_python():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = [text.rpartition(" ")[2] for text in classifiers if re.search(r":: 3\.\d+$", text)]
    assert WORKFLOWS["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]["python"] == supported


SHOWN = {
    path.name: yaml.safe_load(block)
    for path in sorted((ROOT / "docs").glob("*.md"))
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    if "runs-on:" in block
}
"""The workflows that the guides show."""
SIGNS_IN = ("aws-actions/configure-aws-credentials", "azure/login")
INSTALLS = re.compile(r"\b(pip|uv|npm|make|sam build)\b")


def test_the_guides_show_three_workflows():
    assert set(SHOWN) == {"deploy-aws-unattended.md", "deploy-azure.md", "github-action.md"}


@pytest.mark.parametrize("name", SHOWN)
def test_the_guides_pin_actions_by_commit_and_name_their_version(name: str):
    used = re.findall(r"uses: (\S+@\S+(?: # \S+)?)", (ROOT / "docs" / name).read_text())
    pinned = re.compile(r"ml-idle-reaper/ml-idle-reaper@COMMIT|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert used
    assert [action for action in used if not pinned.fullmatch(action)] == []


@pytest.mark.parametrize("name", SHOWN)
def test_the_guides_install_nothing_once_there_are_credentials(name: str):
    """What is installed could use them."""
    [job] = SHOWN[name]["jobs"].values()
    at = next(index for index, step in enumerate(job["steps"]) if step.get("uses", "").startswith(SIGNS_IN))
    before, after = job["steps"][:at], job["steps"][at + 1 :]
    assert [step for step in after if INSTALLS.search(step.get("run", ""))] == []
    if [step for step in after if "ml-idle-reaper@" in step.get("uses", "")]:
        assert [step for step in before if step.get("with") == {"install-only": "true"}]


def test_dependabot_watches_what_is_pinned():
    updates = yaml.safe_load((FOLDER / "dependabot.yml").read_text())["updates"]
    watched = {
        (entry["package-ecosystem"], folder) for entry in updates for folder in entry.get("directories", [entry.get("directory")])
    }
    pinned = {
        ("pip", f"/{path.parent.relative_to(ROOT)}".rstrip("."))
        for path in ROOT.glob("**/requirements.txt")
        if ".venv" not in str(path) and "build" not in path.parts and ".aws-sam" not in path.parts
    }
    assert watched == {("github-actions", "/"), *pinned}


def test_make_check_validates_every_file_here():
    """With the schemas that GitHub publishes."""
    [check] = re.findall(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    schemas = set(
        re.findall(r"--builtin-schema (vendor\.[\w-]+) \S*\.github/", check.replace("$(filter-out %/config.yml,$(wildcard ", ""))
    )
    assert schemas == {
        "vendor.github-workflows",
        "vendor.dependabot",
        "vendor.github-issue-config",
        "vendor.github-issue-forms",
    }
    assert {path.suffix for path in FOLDER.rglob("*.y*ml")} == {".yml"}, "the patterns of make check name this suffix only"
