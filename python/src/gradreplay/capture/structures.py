"""Values that hold others: what parts they have, and how a script and this process make them again.

Tuples, lists and dicts of any kind, NamedTuples, dataclasses, classes that JAX knows as pytrees, and objects
with nothing but attributes.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from .. import structures


@dataclass(frozen=True)
class Part:
    """One of the values that a structure holds."""

    # What its name ends in.
    label: str
    value: Any
    # Whether it is part of the structure: a key, or what JAX does not trace.
    is_static: bool = False


@dataclass(frozen=True)
class Structure:
    """A value, taken apart by one level."""

    parts: Sequence[Part]
    # The text of a script, from the name of `kind` and the texts of the parts.
    write: Callable[[str, Sequence[str]], str]
    # A value like this one, from other parts.
    make: Callable[[Sequence[Any]], Any]
    # The class that the script imports.
    kind: type | None = None


def take_apart(value: Any) -> Structure | None:
    """The structure of a value; `None` if it has none that is known."""
    if isinstance(value, functools.partial):
        return _partial(value)
    kind: Any = type(value)
    if kind in (list, tuple) or _is_size(value):
        return _sequence(value)
    if kind is dict:
        return _mapping(value, None, "{0}")
    if kind is collections.OrderedDict:
        return _mapping(value, kind, "{name}({0})")
    if kind is collections.defaultdict:
        return _default_mapping(value)
    if isinstance(value, MethodType):
        return _method(value)
    if isinstance(value, tuple) and hasattr(kind, "_make") and hasattr(kind, "_fields"):
        return _named_tuple(value)
    if is_linen(value):
        return _linen(value)
    if dataclasses.is_dataclass(kind):
        return _attributes(value, _traced_fields(value))
    flat = flattened(value)
    return _tree_node(value, *flat) if flat is not None else None


def take_attributes(value: Any) -> Structure | None:
    """The structure of an object of a class of Python that has attributes and no other state."""
    kind: Any = type(value)
    if not hasattr(value, "__dict__") or isinstance(value, (type, enum.Enum)):
        return None
    is_plain = kind.__new__ is object.__new__ and kind.__reduce_ex__ is object.__reduce_ex__
    is_plain = is_plain and kind.__reduce__ is object.__reduce__
    keeps = getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
    if not is_plain or not keeps or hasattr(kind, "__setstate__"):
        return None
    if any(vars(base).get("__slots__") for base in kind.__mro__):
        return None
    return _attributes(value, None)


def is_function(value: Any) -> bool:
    """Whether a value is a class or a function, which a name stands for whole: it has no state of its own."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return False
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)) or hasattr(
        value, "__wrapped__"
    ):
        return True
    package = type(value).__module__.partition(".")[0]
    return callable(value) and package in ("numpy", "jax", "jaxlib", "torch", "triton")


def flattened(value: Any) -> tuple[Sequence[Any], Any] | None:
    """Children and static data of a value that JAX, where it is imported, knows as a pytree."""
    tree: Any = sys.modules.get("jax.tree_util")
    if tree is None:
        return None
    try:
        found: tuple[Sequence[Any], Any] | None = tree.default_registry.flatten_one_level(value)
    except ValueError:
        # Another class, by JAX of today.
        return None
    return found


def tree_children(value: Any) -> list[Part]:
    """The children of a value that JAX knows as a pytree, by the labels that it gives them."""
    tree: Any = sys.modules["jax.tree_util"]
    keyed, _ = tree.tree_flatten_with_path(value, is_leaf=lambda inner: inner is not value)
    return [Part(_key_label(path[0]), child) for path, child in keyed]


def _key_label(entry: Any) -> str:
    for attribute in ("name", "key", "idx"):
        found = getattr(entry, attribute, None)
        if found is not None:
            return str(found)
    return str(entry)


def label_of(key: Any) -> str:
    """What the name of the item under a key of a dict ends in."""
    if isinstance(key, enum.Enum):
        return key.name
    if isinstance(key, tuple):
        return "_".join(label_of(part) for part in key)
    return str(key)


def attributes_of(value: Any) -> dict[str, Any]:
    """Fields and other attributes of an object."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    found = {
        field.name: getattr(value, field.name) for field in fields if hasattr(value, field.name)
    }
    return found | dict(getattr(value, "__dict__", {}))


def _is_size(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and type(value) is torch.Size


def _sequence(value: Sequence[Any]) -> Structure:
    def write(name: str, texts: Sequence[str]) -> str:
        if isinstance(value, list):
            return f"[{', '.join(texts)}]"
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    kind: Any = type(value)
    return Structure([Part(str(at), item) for at, item in enumerate(value)], write, kind)


def _items(value: Mapping[Any, Any]) -> list[Part]:
    """Keys and items, in turns."""
    found = []
    for key, item in value.items():
        found += [Part("key", key, is_static=True), Part(label_of(key), item)]
    return found


def _pairs(texts: Sequence[str]) -> str:
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"


def _mapping(value: Mapping[Any, Any], kind: type | None, form: str) -> Structure:
    def write(name: str, texts: Sequence[str]) -> str:
        return form.format(_pairs(texts), name=name)

    def make(parts: Sequence[Any]) -> Any:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return dict(pairs) if kind is None else kind(pairs)

    return Structure(_items(value), write, make, kind)


def _default_mapping(value: collections.defaultdict[Any, Any]) -> Structure:
    def write(name: str, texts: Sequence[str]) -> str:
        return f"{name}({texts[0]}, {_pairs(texts[1:])})"

    def make(parts: Sequence[Any]) -> Any:
        pairs = zip(parts[1::2], parts[2::2], strict=True)
        return collections.defaultdict(parts[0], pairs)

    factory = Part("factory", value.default_factory, is_static=True)
    return Structure([factory, *_items(value)], write, make, collections.defaultdict)


def _partial(value: functools.partial[Any]) -> Structure:
    names = list(value.keywords)
    count = 1 + len(value.args)

    def write(name: str, texts: Sequence[str]) -> str:
        given = [f"{key}={text}" for key, text in zip(names, texts[count:], strict=True)]
        return f"{name}({', '.join([*texts[:count], *given])})"

    def make(parts: Sequence[Any]) -> Any:
        given = dict(zip(names, parts[count:], strict=True))
        return kind(*parts[:count], **given)

    kind: Any = type(value)
    parts = [Part("func", value.func, is_static=True)]
    parts += [Part(str(at), item) for at, item in enumerate(value.args)]
    parts += [Part(key, item) for key, item in value.keywords.items()]
    return Structure(parts, write, make, kind)


def _method(value: MethodType) -> Structure | None:
    """Of a bound method: the object, or the class, that it is of."""
    owner, method = value.__self__, value.__name__
    if getattr(owner, method, None) != value:
        return None

    def write(name: str, texts: Sequence[str]) -> str:
        return f"{texts[0]}.{method}"

    return Structure([Part("self", owner)], write, lambda parts: getattr(parts[0], method))


def _named_tuple(value: Any) -> Structure:
    kind: Any = type(value)
    names: tuple[str, ...] = kind._fields
    parts = [Part(name, item) for name, item in zip(names, value, strict=True)]
    return Structure(parts, functools.partial(_write_call, names), kind._make, kind)


def _write_call(names: Sequence[str], name: str, texts: Sequence[str]) -> str:
    given = (_keyword(key, text) for key, text in zip(names, texts, strict=True))
    return f"{name}({', '.join(given)})"


def _keyword(name: str, text: str) -> str:
    """A keyword argument; the attributes of lists of Flax are called by numbers."""
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return f"{name}={text}" if is_name else f"**{{{name!r}: {text}}}"


def _attributes(value: Any, traced: frozenset[str] | None) -> Structure:
    """Of an object with attributes; static are those that are not `traced`, where this is known."""
    kind: Any = type(value)
    found = attributes_of(value)
    is_called = _is_made_by_call(kind, found)

    def write(name: str, texts: Sequence[str]) -> str:
        called = _write_call(list(found), name, texts)
        return called if is_called else f"replay.instance({name}{_after_name(called, name)}"

    def make(parts: Sequence[Any]) -> Any:
        return structures.instance(kind, **dict(zip(found, parts, strict=True)))

    parts = [
        Part(name, item, is_static=traced is not None and name not in traced)
        for name, item in found.items()
    ]
    return Structure(parts, write, make, kind)


def _after_name(called: str, name: str) -> str:
    """The rest of `name(a=1)`, as arguments that follow another."""
    rest = called[len(name) + 1 :]
    return rest if rest == ")" else f", {rest}"


def _is_made_by_call(kind: Any, attributes: Mapping[str, Any]) -> bool:
    """Whether the `__init__` of a class is the one of `dataclass`, which does nothing but set these."""
    if not dataclasses.is_dataclass(kind) or hasattr(kind, "__post_init__"):
        return False
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    is_generated = isinstance(code, CodeType) and code.co_filename == "<string>"
    given = [field.name for field in dataclasses.fields(kind) if field.init]
    return is_generated and given == list(attributes)


def _traced_fields(value: Any) -> frozenset[str] | None:
    """The fields of a dataclass that JAX traces; `None` where it knows nothing of the class."""
    if flattened(value) is None:
        return None
    labels = frozenset(part.label for part in tree_children(value))
    return labels if labels <= set(attributes_of(value)) else None


def is_linen(value: Any) -> bool:
    """Whether this is a module of Flax's linen."""
    linen: Any = sys.modules.get("flax.linen")
    return linen is not None and isinstance(value, linen.Module)


def linen_modules_in(value: Any) -> list[Any]:
    """The modules of linen that one was made with."""
    jax: Any = sys.modules["jax"]
    leaves = jax.tree_util.tree_leaves(list(_linen_fields(value).values()), is_leaf=is_linen)
    return [leaf for leaf in leaves if is_linen(leaf)]


def _linen_fields(value: Any) -> dict[str, Any]:
    """What a module of linen was made with, but for its place, and for defaults."""
    fields = [field for field in dataclasses.fields(value) if field.init]
    found = {field.name: getattr(value, field.name) for field in fields}
    defaults = {field.name: field.default for field in fields}
    return {
        name: item
        for name, item in found.items()
        if name not in ("parent", "name") and item is not defaults[name]
    }


def _linen(value: Any) -> Structure:
    """Of a module of linen, which holds no arrays: they are in its variables."""
    kind: Any = type(value)
    found = _linen_fields(value)
    write = functools.partial(_write_call, list(found))
    parts = [Part(name, item, is_static=True) for name, item in found.items()]
    return Structure(parts, write, lambda _: value, kind)


def _tree_node(value: Any, children: Sequence[Any], data: Any) -> Structure:
    kind: Any = type(value)
    labels = [part.label for part in tree_children(value)]

    def write(name: str, texts: Sequence[str]) -> str:
        return f"replay.tree_node({name}, [{', '.join(texts[:-1])}], {texts[-1]})"

    def make(parts: Sequence[Any]) -> Any:
        return structures.tree_node(kind, parts[:-1], parts[-1])

    parts = [Part(label, child) for label, child in zip(labels, children, strict=True)]
    return Structure([*parts, Part("data", data, is_static=True)], write, make, kind)
