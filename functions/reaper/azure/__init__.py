"""Everything that speaks to Azure; only this package imports azure.*."""

from __future__ import annotations
