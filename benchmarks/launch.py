"""Run a module or a script in this process and write down what it took.

usage: launch.py FIGURES MODULE|SCRIPT [ARGUMENT ...]

Any Python can run this, also one where nothing of ours is installed.
"""

from __future__ import annotations

import json
import re
import resource
import runpy
import sys
import time
from pathlib import Path


def peak() -> float:
    """Megabytes. Linux's getrusage also counts what the parent had before it started us, so /proc is asked where there is one."""
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    kilobytes = (
        int(match[1]) if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    )
    return kilobytes / 1024


if __name__ == "__main__":
    figures, what, *rest = sys.argv[1:]
    sys.argv = [what, *rest]
    sys.path.pop(0)  # what lies beside this file is none of the command's
    try:
        if what.endswith(".py"):
            sys.path.insert(0, str(Path(what).parent))
            runpy.run_path(what, run_name="__main__")
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    finally:
        Path(figures).write_text(json.dumps({"cpu": time.process_time(), "mb": peak()}))
