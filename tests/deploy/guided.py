"""The guided deployment of the AWS pages: an account to deploy to, SAM's own guided flow in it, and the pages' commands."""

from __future__ import annotations

import re
import shutil
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from deploy import cloudformation, sam
from deploy.cloudformation import Account

PAGE = (sam.ROOT / "docs/deploy-aws.md").read_text()
UNINSTALL = (sam.ROOT / "docs/uninstall.md").read_text()
ORGANIZATION = (sam.ROOT / "docs/deploy-aws-organization.md").read_text()
UNATTENDED = (sam.ROOT / "docs/deploy-aws-unattended.md").read_text()
TIMEOUT = pytest.mark.timeout(900)
"""Two command lines that take seconds to start, on a busy machine many."""


@contextmanager
def empty_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account of one file's own (what one deploys moto does not keep apart) and a folder with what is deployed; building is another test's."""
    [setup] = blocks(PAGE, "In each new shell")
    try:
        cloudformation.ready()
    except sam.Missing as why:
        warnings.warn(f"NOT TESTED: deploying with SAM, because {why}", stacklevel=1)
        pytest.skip(str(why))
    home = tmp_path_factory.mktemp("admin")
    for name in ("template.yaml", "samconfig.toml"):
        shutil.copy(sam.ROOT / name, home)
    shutil.copytree(sam.ROOT / "policies", home / "policies")
    (home / "functions").mkdir()
    (home / "functions/function.py").write_text("def handler(event, context):\n    return event\n")
    with pytest.MonkeyPatch.context() as patch, cloudformation.account(home, patch, setup) as found:
        yield found


def take_defaults(account: Account) -> str:
    """What SAM says to somebody who takes every default, and confirms the changes at the end."""
    done = guide(account)
    assert done.startswith("0 "), done
    return done


def guide(account: Account, command: str = "sam deploy --guided", **answers: str) -> str:
    """Exit status and output of the guided command with Enter to every question but those named, and y to the last."""
    parameters = yaml.safe_load(re.sub(r"!\w+", "", (account.home / "template.yaml").read_text()))["Parameters"]
    typed = ["", "", *(answers.get(name, "") for name in parameters), *[""] * 6]
    done = account.shell(command, answers="".join(f"{line}\n" for line in [*typed, "y"]))
    return f"{done.returncode} {done.stdout}{done.stderr}"


def blocks(page: str, heading: str, language: str = "sh") -> list[str]:
    """The commands under a heading."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def saved(account: Account) -> str:
    """The parameters in samconfig.toml."""
    return str(answers(account)["parameter_overrides"])


def answers(account: Account) -> dict[str, Any]:
    """All that samconfig.toml has of the first installation."""
    config = tomllib.loads((account.home / "samconfig.toml").read_text())
    return dict(config["default"]["deploy"]["parameters"])


def put_policy() -> str:
    """The command that stores the policy, without the check before it."""
    [put] = blocks(PAGE, "Your policy")
    return str(put.split("\n", 1)[1])


def uninstall() -> list[str]:
    """The commands that delete the stack, and those that delete what it leaves."""
    return blocks(UNINSTALL, "On AWS")


def deploy_unattended() -> str:
    """The command of that page, which its workflow runs as well."""
    [command] = re.findall(r"^\$ (sam deploy .*)$", UNATTENDED, re.MULTILINE)
    [workflow] = re.findall(r"```yaml\n(.*?)```", UNATTENDED, re.DOTALL)
    steps = [step["run"] for step in yaml.safe_load(workflow)["jobs"]["deploy"]["steps"] if "run" in step]
    assert (steps[-1], steps.index("sam build") < len(steps) - 1) == (command, True)
    return str(command)
