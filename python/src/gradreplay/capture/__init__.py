"""Captures training steps as fixtures that `replay` reads.

from gradreplay import capture

fused_loss = capture.function(fused_loss, name="loss")
for step in range(steps):
    with capture.step("fixtures/step{step}", step=step, when=capture.first(3) | capture.nonfinite()):
        ...

While a step is not captured a captured function costs one look at a flag.
"""

from __future__ import annotations

from . import interpreter
from .errors import CaptureError
from .functions import function
from .jax_ import jax_function
from .model_ import model
from .session import Step as step
from .session import flush, metric, whole
from .triton_ import triton
from .when import crash, every, first, nonfinite, spike

__all__ = [
    "CaptureError",
    "crash",
    "every",
    "first",
    "flush",
    "function",
    "jax_function",
    "metric",
    "model",
    "nonfinite",
    "spike",
    "step",
    "triton",
    "whole",
]

interpreter.complete()
