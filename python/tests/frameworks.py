"""Which frameworks are there, and modules of kernels for them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest


def need(module: str) -> None:
    """Skips where a framework is missing; fails if all of them are said to be there."""
    if importlib.util.find_spec(module) is None:
        if os.environ.get("GRADREPLAY_ALL_FRAMEWORKS"):
            pytest.fail(f"{module} is missing")
        pytest.skip(f"{module} is not installed")


def load_kernels(folder: Path, text: str) -> ModuleType:
    """The module `kernels` with this text, as a file: Triton reads the sources of its kernels."""
    path = folder / "kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
