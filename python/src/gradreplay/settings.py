"""The settings of this process that change numbers: flags of imported frameworks, and variables.

A flag is read if its framework is imported and has it. Its name is the expression that gives it."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any

from .installed import deciding_variables

# Of the flags in a line the first one that can be read is taken: newer versions refuse to read the older
# one once the newer has been set.
_OF_TORCH = (
    ("get_default_dtype()",),
    ("are_deterministic_algorithms_enabled()",),
)
_OF_TORCH_ON_CPU = (
    ("get_float32_matmul_precision()",),
    ("backends.cpu.get_cpu_capability()",),
    ("get_num_threads()",),
)
_OF_TORCH_ON_CUDA = (
    ("backends.fp32_precision",),
    ("backends.cuda.matmul.fp32_precision", "backends.cuda.matmul.allow_tf32"),
    ("backends.cudnn.conv.fp32_precision", "backends.cudnn.allow_tf32"),
    ("backends.cudnn.rnn.fp32_precision",),
    ("backends.cuda.matmul.allow_fp16_reduced_precision_reduction",),
    ("backends.cuda.matmul.allow_bf16_reduced_precision_reduction",),
    ("backends.cuda.matmul.allow_fp16_accumulation",),
    ("backends.cudnn.enabled",),
    ("backends.cudnn.benchmark",),
    ("backends.cudnn.deterministic",),
)
_OF_JAX = (
    ("config.jax_enable_x64",),
    ("config.jax_default_matmul_precision",),
    ("config.jax_disable_jit",),
    ("config.jax_default_prng_impl",),
    ("config.jax_threefry_partitionable",),
)


def settings(framework: str, device: str) -> dict[str, str]:
    """The flags that count for a call of `framework` on `device`, then the variables."""
    on_device = _OF_TORCH_ON_CPU if device.endswith("cpu") else _OF_TORCH_ON_CUDA
    flags = {"torch": (*_OF_TORCH, *on_device), "jax": _OF_JAX}.get(framework, ())
    module = sys.modules.get(framework)
    known = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for alternatives in flags if module is not None else ():
            for path in alternatives:
                # A version without it, or one that refuses it: RuntimeError.
                with contextlib.suppress(Exception):
                    known[f"{framework}.{path}"] = _text(reduce(_get, path.split("."), module))
                    break
    return known | deciding_variables(os.environ)


def _get(owner: Any, name: str) -> Any:
    if name.endswith("()"):
        function: Callable[[], Any] = getattr(owner, name.removesuffix("()"))
        return function()
    return getattr(owner, name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
