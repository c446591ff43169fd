"""Attributes with other values for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute with another value for the length of a block."""
    own = vars(target).get(name, _ABSENT)
    setattr(target, name, value)
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(target, name)
        else:
            setattr(target, name, own)
