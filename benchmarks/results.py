"""The figures of every benchmark: kept in results.json, row by row, and written out as RESULTS.md for people."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "results.json", HERE / "RESULTS.md"
Row = dict[str, Any]
Renderer = Callable[[Mapping[str, Row]], str]


def put(section: str, rows: Mapping[str, Row]) -> None:
    """Keep these rows; a row of the same section and key is replaced, the others stay as an earlier run left them."""
    results = load()
    stamp = {"machine": machine(), "version": version(), "load": round(os.getloadavg()[0], 1)}
    stamped = {key: {**row, **stamp} for key, row in rows.items()}
    results[section] = {**results.get(section, {}), **stamped}
    KEPT.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(_page(results))


def load() -> dict[str, dict[str, Row]]:
    """Every row of every section."""
    results: dict[str, dict[str, Row]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return results


def machine() -> str:
    """Cores, Python and date: what a reader needs to compare, and nothing that names the machine."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"


def version() -> str:
    """The commit that was measured; with a plus where files had been changed since."""
    completed = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, cwd=HERE, check=False
    )
    return completed.stdout.strip() or "unknown"


def table(heads: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *lines]) + "\n"


def measured(rows: Mapping[str, Row]) -> str:
    """Where and when the rows of a section were measured, and how busy the machine was with other work besides."""
    places = "; ".join(sorted({f"{row['machine']}, commit {row['version']}" for row in rows.values()}))
    loads = [row["load"] for row in rows.values()]
    return f"Measured on {places}; the load average was {min(loads)} to {max(loads)}.\n"


def _page(results: Mapping[str, Mapping[str, Row]]) -> str:
    import sections

    parts = [renderer(results[name]) for name, renderer in sections.RENDERERS.items() if name in results]
    return "\n".join([sections.HEAD, *parts])
