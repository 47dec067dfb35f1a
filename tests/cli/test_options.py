"""The options that commands share: an option without a value is an error."""

from __future__ import annotations

import pytest

from reaper.cli import options
from reaper.errors import SettingsError


@pytest.mark.parametrize("option", ["account", "region", "subscription", "kind"])
@pytest.mark.parametrize("values", [[""], [" , "], ["", "aws-1"]])
def test_an_option_without_a_value_is_an_error(option: str, values: list[str]):
    places: dict[str, list[str] | None] = dict.fromkeys(("account", "region", "subscription", "kind"))
    with pytest.raises(SettingsError, match=f"--{option} '' is empty; leave it out to include all"):
        options.read_places("all", **{**places, option: values})
