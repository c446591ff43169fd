"""Models of Flax's linen, whose modules get their parameters by `apply`.

Flax tells of each call of a module. It is made again as one of `apply` of the same module with the variables
that it has there, a function of arrays like others, in which the calls of its modules are told of in turn.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import structures
from .errors import CaptureError


@dataclass
class _Applied:
    """A call that is made again by `apply`."""

    path: tuple[str, ...]
    # Whether Flax has told of the call itself, once more.
    has_begun: bool = False


# What captures a call: it gets the module by itself, its path, and the arguments of `apply`.
Capture = Callable[[Any, str, tuple[Any, ...], Mapping[str, Any]], Any]


@dataclass
class Calls:
    """Captures the calls of the modules in a model."""

    is_chosen: Callable[[str], bool]
    capture: Capture
    left_out: Callable[[str, CaptureError], None]
    _open: list[_Applied] = field(default_factory=list)

    def intercept(
        self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], told: Any
    ) -> Any:
        """Captures one call of a method, if it is a chosen module's own."""
        module = told.module
        if told.method_name != "__call__" or module.scope is None:
            return call(*args, **kwargs)
        outer = self._open[-1] if self._open else _Applied((), has_begun=True)
        if not outer.has_begun:
            outer.has_begun = True
            return call(*args, **kwargs)
        path = outer.path + tuple(module.path)
        text = ".".join(path)
        if not self.is_chosen(text):
            return call(*args, **kwargs)
        try:
            _check(module)
        except CaptureError as error:
            self.left_out(text, error)
            return call(*args, **kwargs)
        self._open.append(_Applied(path))
        try:
            alone = module.clone(parent=None, name=None)
            return self.capture(alone, text, (alone, module.variables, *args), kwargs)
        finally:
            self._open.pop()


def _check(module: Any) -> None:
    """Refuses a call that is not one of arrays alone."""
    scope = module.scope
    if scope.rngs:
        raise CaptureError("its `apply` has random numbers, which Flax derives from its place")
    if scope.mutable:
        raise CaptureError("its `apply` may change variables")
    own = tuple(module.path)
    for inner in structures.linen_modules_in(module):
        if inner.scope is not None and tuple(inner.path)[: len(own)] != own:
            raise CaptureError("it holds a module of another one")


def is_model(value: Any) -> bool:
    """Whether this is a module of linen."""
    return structures.is_linen(value)


def apply(module: Any, variables: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Applies a module; calls are told of if they were around it."""
    linen: Any = sys.modules["flax.linen"]
    return linen.Module.apply(module, variables, *args, **kwargs)


def wrap_apply(kind: type, calls: Calls, begin: Callable[[], bool]) -> None:
    """Has calls of modules captured while a module of this class is applied, where `begin` says so."""
    linen: Any = sys.modules["flax.linen"]
    original = kind.apply  # type: ignore[attr-defined]

    @functools.wraps(original)
    def wrapper(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not begin():
            return original(self, *args, **kwargs)
        with linen.intercept_methods(calls.intercept):
            return original(self, *args, **kwargs)

    kind.apply = wrapper  # type: ignore[attr-defined]
