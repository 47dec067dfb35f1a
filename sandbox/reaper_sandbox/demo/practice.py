"""`reaper demo --serve`: keeps both simulated clouds running and prints the line that leads every other command to them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from shlex import quote

from reaper.cli.output import own_command, print_message, show_progress
from reaper.settings import SETTING_DOCS
from reaper_sandbox.demo.practice_world import PracticeWorld, practice_world

OTHER_ACCOUNTS = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID")
"""Variables that would lead a shell away from the simulated clouds, besides the reaper's own settings."""
GUIDE = """\
Paste this line into another terminal. Every command there then works on two
simulated clouds, such as:

    {reaper} sweep
    {reaper} plan --output plan.json
    {reaper} explain fraud-idle

Mails: {home}/mail
Policy: {home}/policy.yaml
AWS: {aws}
Azure: {azure}
Press Ctrl-C here to end it all."""


def serve_practice(clock: Callable[[], datetime]) -> None:
    """Serve until Ctrl-C or SIGTERM. Standard output gets the line for other terminals, standard error what to do with it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job of a shell ignores SIGINT otherwise
        signal.signal(number, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            with show_progress() as progress:
                world = stack.enter_context(practice_world(clock, progress))
            _print_guide(world)
            threading.Event().wait()
    except KeyboardInterrupt:
        print_message("Stopped. The simulated clouds are gone, and so is their folder.")


def _print_guide(world: PracticeWorld) -> None:
    exports = world.home / "exports.sh"
    exports.write_text("".join(f"{line}\n" for line in shell_lines(world.exports, os.environ)), encoding="utf-8")
    sys.stdout.write(f". {quote(str(exports))}\n")
    sys.stdout.flush()
    reaper = own_command(sys.argv, os.environ)
    print_message(GUIDE.format(aws=world.aws.url, azure=world.azure.url, home=world.home, reaper=reaper))


def shell_lines(exports: Mapping[str, str], environ: Iterable[str]) -> Iterator[str]:
    """What a shell runs: unset whatever would lead elsewhere, then set the exports. `environ`: the names of this process's variables."""
    own = (name for name in environ if name.startswith(("AWS_", "AZURE_", "REAPER_")))
    elsewhere = {*OTHER_ACCOUNTS, *SETTING_DOCS, *own} - exports.keys()
    yield f"unset {' '.join(sorted(elsewhere))}"
    yield from (f"export {name}={quote(value)}" for name, value in exports.items())
