"""Lets `python -m reaper` be the console script `reaper`."""

from __future__ import annotations

from reaper.cli.main import main

main()
