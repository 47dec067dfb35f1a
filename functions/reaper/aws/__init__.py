"""Everything that speaks to AWS; only this package imports boto3."""

from __future__ import annotations


def access_advice(missing: str | None) -> str:
    """What to do if nothing of AWS could be read. `missing`: the permission that was refused; None if none was."""
    allow = f", and allow them {missing}" if missing else ""
    return f"AWS: check that the credentials are there and of the right account (`aws sts get-caller-identity`){allow}."
