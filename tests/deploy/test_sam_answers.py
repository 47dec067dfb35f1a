"""What is answered once in SAM's guided flow is the answer of every later deployment: kept in samconfig.toml, and in the stack."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator

import pytest

from deploy import guided, sam
from deploy.cloudformation import STACK, Account
from deploy.guided import PAGE, blocks, guide

pytestmark = guided.TIMEOUT


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """One for the file, with every default deployed."""
    with guided.empty_account(tmp_path_factory) as found:
        guided.take_defaults(found)
        yield found


@pytest.fixture(scope="module")
def chosen(account: Account) -> tuple[str, str, str]:
    """What SAM says to some answers, what samconfig.toml has then, and what SAM says to one more answer."""
    first = guide(account, Mode="notify", SnoozeLinks="true", PolicyParameter="/ml-idle-reaper/policy")
    assert first.startswith("0 "), first
    return first, guided.saved(account), guide(account, Quiet="false")


@pytest.fixture
def fresh_clone(account: Account, chosen: tuple[str, str, str]) -> Iterator[Account]:
    """The same account, and a fresh clone's samconfig.toml in place of the one with the answers until the test ends."""
    config = account.home / "samconfig.toml"
    kept = config.read_text()
    shutil.copy(sam.ROOT / "samconfig.toml", config)
    yield account
    config.write_text(kept)


def parameters(account: Account) -> dict[str, str]:
    """Some of the deployed stack's parameters."""
    [stack] = account.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    found = {p["ParameterKey"]: p["ParameterValue"] for p in stack["Parameters"]}
    return {name: found[name] for name in ("Mode", "SnoozeLinks", "Quiet")}


def test_the_mode_chosen_once_is_that_of_the_next_deployment(account: Account, chosen: tuple[str, str, str]):
    mode, kept, again = chosen
    assert "Function Url has no authentication" not in mode
    assert 'Mode="notify"' in kept
    assert "Parameter Mode [notify]" in again
    assert parameters(account) == {"Mode": "notify", "SnoozeLinks": "true", "Quiet": "false"}


def test_no_release_changes_the_file_that_holds_the_answers():
    """Everybody who deployed has edited it since it first came: any change here is a conflict for them, and theirs to lose."""
    shipped = (sam.ROOT / "samconfig.toml").read_bytes()
    assert hashlib.sha256(shipped).hexdigest() == "fd7c9c72357e7d3a8a33aee6128cb1b86d8ad792313c922052f02f314e14434c"
    assert b"parameter_overrides" not in shipped


def test_a_fresh_clone_deploys_without_touching_a_parameter(fresh_clone: Account):
    done = fresh_clone.shell(guided.deploy_unattended())
    assert done.returncode == 0, done.stdout + done.stderr
    assert parameters(fresh_clone) == {"Mode": "notify", "SnoozeLinks": "true", "Quiet": "false"}


def test_the_answers_come_back_from_the_stack(fresh_clone: Account):
    [rebuild] = blocks(PAGE, "Updating")
    done = fresh_clone.shell(rebuild)
    assert done.returncode == 0, done.stderr
    answer(fresh_clone, done.stdout)
    again = guide(fresh_clone)
    assert "Parameter Mode [notify]" in again, again
    assert "Parameter Policy [version: 1]" in again
    assert parameters(fresh_clone) == {"Mode": "notify", "SnoozeLinks": "true", "Quiet": "false"}


def answer(account: Account, line: str) -> None:
    """Put a line under [default.deploy.parameters] by hand, in place of the one that may be there."""
    path = account.home / "samconfig.toml"
    text = re.sub(r"^parameter_overrides = .*\n", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(text.replace("[default.deploy.parameters]\n", f"[default.deploy.parameters]\n{line}"))
