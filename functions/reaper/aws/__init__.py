"""Everything that speaks to AWS; only this package imports boto3."""

from __future__ import annotations
