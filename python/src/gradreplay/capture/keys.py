"""Keys of JAX's random numbers that have a type of their own: a fixture holds their words."""

from __future__ import annotations

import sys
from typing import Any

from .. import tensors


def is_typed(value: Any) -> bool:
    """Whether an array is one of typed keys."""
    if not tensors.is_jax(value):
        return False
    jax: Any = sys.modules["jax"]
    return bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key))


def words(value: Any) -> Any:
    """The words of keys, as an array of integers."""
    jax: Any = sys.modules["jax"]
    return jax.random.key_data(value)


def kind(value: Any) -> str:
    """The generator that keys are of."""
    jax: Any = sys.modules["jax"]
    return str(jax.random.key_impl(value))


def wrap(value: Any, kind: str) -> Any:
    """Keys of a generator from their words."""
    jax: Any = sys.modules["jax"]
    return jax.random.wrap_key_data(value, impl=kind)
