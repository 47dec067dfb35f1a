"""Where the Functions host looks: it wants this file beside host.json, and finds the app in reaper.azure.functions.triggers."""

import sys
from pathlib import Path

# The package lies in functions/, which is also Lambda's CodeUri; the host puts only this folder on the path.
sys.path.insert(0, str(Path(__file__).parent / "functions"))

from reaper.azure.functions.triggers import app

__all__ = ["app"]
