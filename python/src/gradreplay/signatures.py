"""Signatures of functions, whatever their annotations name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; annotations that cannot be evaluated stay as they are.

    From Python 3.14 on they are evaluated when they are asked for, and may name what type checkers alone see.
    Raises :class:`TypeError` or :class:`ValueError` if it has none."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)
