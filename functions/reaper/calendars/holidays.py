"""Public holidays of a country or region, by the library `holidays`, which is loaded only if a policy names a country.

It needs half a second and 40 MB. Names, which depend on the process's language, aren't used. https://holidays.readthedocs.io
"""

from __future__ import annotations

import sys
from datetime import date, datetime
from pathlib import Path
from types import ModuleType

from reaper.text import did_you_mean, short_repr

BUNDLED = Path(__file__).parents[2] / "holidays.zip"
"""Where the Lambda bundle has the library: unzipped, it would be larger than the product."""


def _library() -> ModuleType:
    """Raises ImportError if it isn't installed."""
    if BUNDLED.exists() and str(BUNDLED) not in sys.path:
        sys.path.append(str(BUNDLED))
    import holidays

    return holidays


def unknown_place(country: str, subdiv: str | None) -> str | None:
    """What is wrong with a country or its region, with the nearest that is known. None also if the library isn't installed."""
    try:
        library = _library()
    except ImportError:
        return None
    from holidays.registry import COUNTRIES

    codes = {name.lower(): code for name, code, *_ in COUNTRIES.values()} | {row[1].lower(): row[1] for row in COUNTRIES.values()}
    if country not in codes.values():
        near = codes.get(country.lower()) or codes.get(did_you_mean(country, codes)[len("; did you mean ") : -1].lower())
        return f"unknown country {short_repr(country)}: expected an ISO 3166 code such as {near or 'DE'}"
    known = getattr(library, country).subdivisions
    if subdiv is None or subdiv in known:
        return None
    if by_name := getattr(library, country).subdivisions_aliases.get(subdiv):
        return f"unknown subdiv {short_repr(subdiv)} of {country}; did you mean {by_name}?"
    others = f"; known are {', '.join(known)}" if known else "; this country has none, so remove it"
    return f"unknown subdiv {short_repr(subdiv)} of {country}{did_you_mean(subdiv, known) or others}"


def holidays_near(country: str, subdiv: str | None, now: datetime) -> list[tuple[date, date]]:
    """The holidays of the last year, this one and the two after it. Raises ValueError if this year or the next isn't known, ImportError without
    the library.
    """
    library, found = _library(), []
    for year in range(now.year - 1, now.year + 3):
        entity = getattr(library, country)
        is_known = entity.start_year <= year <= entity.end_year
        # Without `expand=False` a look-up would add years, and a year that isn't known has no holidays at all.
        days = library.country_holidays(country, subdiv=subdiv, years=[year], expand=False, observed=True) if is_known else {}
        if not days and year in (now.year, now.year + 1):
            raise ValueError(
                f"the library holidays knows none of {country} in {year}; update the reaper, or write the days as dates"
            )
        found += [(day, day) for day in days]
    return found
