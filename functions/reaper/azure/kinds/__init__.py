"""One file per sort of resource; each binds `KIND`. The folder is the registry, see `reaper.registry`."""

from __future__ import annotations
