"""Pages and mails from templates. Everything is escaped, but for plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reaper.duration import format_duration
from reaper.text import format_day, format_time, tidy_line

if TYPE_CHECKING:
    from jinja2 import Environment


def open_templates(package: str, filters: Mapping[str, Callable[..., Any]], folder: str = "") -> Environment:
    """The templates of a package, with these filters besides the common ones."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # would slow every command

    pages = Environment(
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        loader=PackageLoader(package, folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"moment": format_time, "day": format_day, "length": format_duration, "tidy": tidy_line, **filters}
    return pages
