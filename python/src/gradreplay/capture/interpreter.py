"""Triton's interpreter in a training: completed as for a replay.

The same kernels run in both, and round alike.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from .. import triton_interpreter
from ..faults import Place
from .provenance import repository


def complete() -> None:
    """Completes the interpreter when the training loads it, which it does to interpret kernels."""
    triton_interpreter.when_loaded(_complete_module)


def _complete_module(interpreter: Any) -> None:
    where = repository(Path.cwd())
    # What launchers ask about the device is PyTorch's.
    has_torch = importlib.util.find_spec("torch") is not None
    torch: Any = importlib.import_module("torch") if has_torch else None
    device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    place = Place(tree=where.root if where is not None else Path.cwd())
    triton_interpreter.complete_module(interpreter, place, device)
