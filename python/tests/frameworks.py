"""Which frameworks are there."""

from __future__ import annotations

import importlib.util
import os

import pytest


def need(module: str) -> None:
    """Skips where a framework is missing; fails if all of them are said to be there."""
    if importlib.util.find_spec(module) is None:
        if os.environ.get("GRADREPLAY_ALL_FRAMEWORKS"):
            pytest.fail(f"{module} is missing")
        pytest.skip(f"{module} is not installed")
