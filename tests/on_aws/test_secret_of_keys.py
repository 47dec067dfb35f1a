"""The keys that sign links are not read for a policy, also where no setting says which secret they are."""

from __future__ import annotations

import boto3
import pytest

from reaper.errors import CloudError
from reaper.stores import secret_store
from reaper_sandbox.aws.server import Server

RING = '{"current": "k1", "k1": "0123456789abcdef0123456789abcdef"}'
EVERYTHING = {"REAPER_SECRETS": "*"}


@pytest.fixture(autouse=True)
def secrets(server: Server) -> None:
    client = boto3.client("secretsmanager")
    client.create_secret(Name="ring", SecretString=RING)
    client.create_secret(Name="hook", SecretString='{"k1": "s3cret"}')


@pytest.mark.parametrize("ref", ["secretsmanager:ring", "secretsmanager:ring#k1", "secretsmanager:ring#current"])
def test_no_policy_can_read_a_snooze_key(ref: str):
    with pytest.raises(CloudError, match="holds the keys that sign snooze links"):
        secret_store.read_for_policy(ref, EVERYTHING)


def test_a_policy_can_read_other_secrets_and_a_setting_the_keys():
    assert secret_store.read_for_policy("secretsmanager:hook#k1", EVERYTHING) == "s3cret"
    assert secret_store.read_secret("secretsmanager:ring", {}) == RING
