"""A mail's two bodies from its templates. HTML is escaped; plain text isn't markup and needs no escaping."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reaper.duration import format_duration
from reaper.notices.item import bar_heights
from reaper.text import UTC, format_time, format_usd, tidy_line


def render_mail(name: str, **values: Any) -> tuple[str, str]:
    """Plain text and HTML of the mail `owner` or `admin`."""
    pages = _environment()
    plain = pages.get_template(f"{name}.txt.j2").render(**values)
    html = pages.get_template(f"{name}.html.j2").render(**values)
    return re.sub(r"\n{3,}", "\n\n", plain).strip() + "\n", re.sub(r"\n\s*\n+", "\n", html).strip() + "\n"


@cache
def _environment() -> Environment:
    pages = Environment(
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        loader=PackageLoader("reaper.notices", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals["UTC"] = UTC
    pages.filters |= {
        "moment": format_time,
        "money": format_usd,
        "length": format_duration,
        "heights": bar_heights,
        "tidy": tidy_line,
    }
    return pages
