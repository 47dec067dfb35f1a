"""Everything that speaks to Azure; only this package imports azure.*."""

from __future__ import annotations


def access_advice(missing: str | None) -> str:
    """What to do if nothing of Azure could be read. `missing`: the permission that was refused; None if none was."""
    who = "give the identity the role Reader on it" if missing else "sign in with `az login`"
    return f"Azure: check the subscription's id (`az account list --output table` shows what can be read), and {who}."
