"""Models of JAX that are objects: pytrees that can be called, as Equinox and Flax's nnx make them.

JAX makes such objects anew in each function that it traces, so what can be captured of them is `__call__` of
their classes. Which object a call is of is known by the object around it, whose call has begun before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from . import structures
from .errors import CaptureError
from .target import Target, find, find_named

_CALL = "__call__"


def objects_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The objects of a pytree whose classes define a call, by their paths; the outer ones first."""
    if structures.flattened(value) is None or _is_variable(value):
        return
    # The streams of random numbers that Flax has in its modules can be called as well.
    is_stream = type(value).__module__ == "flax.nnx.rnglib"
    if _defining(type(value)) is not None and not is_stream:
        yield path, value
    for part in structures.tree_children(value):
        yield from objects_in(part.value, f"{path}.{part.label}" if path else part.label)


def _defining(kind: type) -> type | None:
    """The class that has the `__call__` of `kind`, where that is written in Python."""
    for base in kind.__mro__:
        if _CALL in vars(base):
            # Equinox has another object in the class, which gives the function.
            found = getattr(base, _CALL)
            return base if isinstance(found, FunctionType) else None
    return None


@dataclass
class Objects:
    """The objects of a model, and those whose calls have begun."""

    root: type
    # The paths of each class.
    paths: dict[type, list[str]] = field(default_factory=dict)
    # Whether calls are no longer looked at, while one is repeated.
    paused: bool = False
    # By the numbers of objects, their paths: of each call that has begun, those in its object.
    _around: list[dict[int, str]] = field(default_factory=list)

    def path_of(self, value: Any) -> str | None:
        """The path of an object; `None` if it is of a class that the model has not.

        Where nothing around it tells, an object has the one path of its class, or else its class's name."""
        for known in reversed(self._around):
            if id(value) in known:
                return known[id(value)]
        kind = type(value)
        if kind is self.root:
            return ""
        paths = self.paths.get(kind)
        if paths is None:
            return None
        return paths[0] if len(paths) == 1 else kind.__name__

    @contextmanager
    def inside(self, value: Any, path: str) -> Iterator[None]:
        """Knows the objects in one whose call has begun."""
        known: dict[int, str] = {}
        for inner, one in objects_in(value, path):
            known.setdefault(id(one), inner)
        self._around.append(known)
        try:
            yield
        finally:
            self._around.pop()


def read_objects(model: Any) -> Objects | None:
    """The objects of a model; `None` if none of them can be called."""
    found = Objects(type(model))
    for path, value in objects_in(model):
        found.paths.setdefault(type(value), []).append(path)
    return found if found.paths else None


def target_of(kind: type, method: str = _CALL) -> Target:
    """The way to a method of a class."""
    named = find_named(kind)
    found = find(kind, f"{named.module}:{named.qualname}" if named is not None else None)
    return replace(found, expression=f"{found.expression}.{method}")


Call = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


def wrap_calls(objects: Objects, make: Callable[[Callable[..., Any]], Call]) -> None:
    """Puts what `make` makes of each function in its place: `__call__` of the objects' classes."""
    for kind in {_defining(kind): None for kind in objects.paths}:
        original = getattr(kind, _CALL)
        setattr(kind, _CALL, _forwarding(original, make(original)))


def _forwarding(original: Callable[..., Any], call: Call) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return call(self, args, kwargs)

    return wrapper


# Variables of Flax, which a call may set


class Variables:
    """The variables of an object of Flax and of its copy, on which a call works."""

    def __init__(self, given: Any, copy: Any) -> None:
        self._given = _variables(given)
        self._copies = _variables(copy)
        self._before = [one.get_raw_value() for one in self._copies]
        self._copy = copy

    def give_back(self) -> bool:
        """Sets the variables of the object that the call has set in the copy.

        Returns whether these are all: a call may make others, as by `sow`."""
        if [*map(id, _variables(self._copy))] != [*map(id, self._copies)]:
            return False
        pairs = zip(self._given, self._copies, self._before, strict=True)
        for given, copy, before in pairs:
            if copy.get_raw_value() is not before:
                given.set_raw_value(copy.get_raw_value())
        return True


def check_variables(value: Any) -> None:
    """Refuses an object that holds a variable in two places: its copy would have two."""
    found = _variables(value)
    if len({id(one) for one in found}) != len(found):
        raise CaptureError("it holds one variable of Flax in two places")


def _variables(value: Any) -> Sequence[Any]:
    jax: Any = sys.modules["jax"]
    leaves = jax.tree_util.tree_leaves(value, is_leaf=_is_variable)
    return [leaf for leaf in leaves if _is_variable(leaf)]


def _is_variable(value: Any) -> bool:
    nnx: Any = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, nnx.Variable)
