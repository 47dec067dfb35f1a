"""The options that commands share: an option without a value is an error."""

from __future__ import annotations

import pytest

from reaper.cli.places import PlaceOptions, with_places
from reaper.errors import SettingsError
from reaper.settings import Settings


@pytest.mark.parametrize("option", ["account", "region", "subscription", "ou", "exclude_account"])
@pytest.mark.parametrize("values", [[""], [" , "], ["", "aws-1"]])
def test_an_option_without_a_value_is_an_error(option: str, values: list[str]):
    with pytest.raises(SettingsError, match=f"--{option.replace('_', '-')} '' is empty; leave it out to include all"):
        with_places(Settings(), PlaceOptions(**{option: values}))


def test_a_kind_without_a_value_is_an_error():
    with pytest.raises(SettingsError, match="--kind '' is empty; leave it out to include all"):
        with_places(Settings(), PlaceOptions(), [" , "])
