"""What drafted harnesses need for a call: objects of a class of the revision, and refusals."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from .faults import Blame

_T = TypeVar("_T")


def instance(kind: type[_T], **attributes: Any) -> _T:
    """An object of class `kind` with these attributes, made without its `__init__`."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        # Frozen classes refuse their own `__setattr__`.
        object.__setattr__(made, name, value)
    return made


def tree_node(kind: type[_T], children: Sequence[Any], data: Any) -> _T:
    """An object of a class that JAX knows as a pytree, from its children and its static data."""
    tree: Any = importlib.import_module("jax.tree_util")
    leaf = tree.tree_structure(0)
    definition = tree.PyTreeDef
    # Its name before JAX 0.8.
    make = getattr(definition, "from_node_data_and_children", None)
    make = make or definition.make_from_node_data_and_children
    whole = make(tree.default_registry, (kind, data), [leaf] * len(children))
    made: _T = whole.unflatten(children)
    return made


def children(node: Any) -> list[Any]:
    """The children of an object that JAX knows as a pytree, in their order."""
    tree: Any = importlib.import_module("jax.tree_util")
    found: list[Any] = tree.tree_leaves(node, is_leaf=lambda value: value is not node)
    return found


def refuse_unnamed() -> NoReturn:
    """Ends the replay of a call that had not returned when it was captured, and returns now."""
    raise Blame(
        "program",
        "the captured call had not returned, so that the harness names no outputs; here it returns",
        "capture a call that returns, which drafts the outputs, or name them in replay.toml and in `results`",
    )
