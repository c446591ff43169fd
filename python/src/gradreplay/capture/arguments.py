"""The arguments and results of a call: which arrays they hold, by which names, and how to write the call.

Arrays and numbers become inputs of the harness. What a call is told besides (`None`, texts, functions) stands
in the drafted script as it is; what holds others is made there as it was.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import keyword
import math
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tensors
from ..signatures import signature
from . import keys, structures
from .errors import CaptureError
from .imports import Imported, Imports
from .structures import Structure

# Words of CUDA C++ that a harness cannot use as a name, and names that a drafted script uses itself.
_TAKEN = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor blockDim blockIdx bool break case catch char
    char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto gridDim if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this threadIdx throw
    thread_local true try typedef typeid typename union unsigned using virtual void volatile warpSize
    wchar_t while xor xor_eq
    torch jax jnp numpy np replay step precision device result results upstream gradients
    inputs names call module parameters functional_call run ones others pull not_known_yet
    part_number""".split()
)

Make = Callable[[Mapping[str, Any]], Any]


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy, PyTorch or JAX, or stands for one while JAX traces."""
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    return tensors.is_torch(value) or tensors.is_jax(value)


@functools.lru_cache(maxsize=4096)
def identifier(text: str) -> str:
    """`text` as a name that a harness and a script can use."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).lstrip("_") or "x"
    if not name[0].isalpha():
        name = f"x{name}"
    if name in _TAKEN or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        name += "_"
    return name


@dataclass
class Names:
    """Names that are given once each."""

    taken: set[str] = field(default_factory=set)

    def give(self, text: str) -> str:
        """A name like `text` that nothing else has."""
        base = name = identifier(text)
        number = 2
        while name in self.taken:
            name = f"{base}_{number}"
            number += 1
        self.taken.add(name)
        return name


@dataclass
class Arguments:
    """The arguments of one call."""

    # Arrays by name, in order; one that is passed twice is here once.
    arrays: dict[str, Any]
    # Numbers of Python, as arrays without dimensions.
    numbers: dict[str, np.ndarray[Any, Any]]
    # The arguments as the script writes them.
    text: str
    names: Names
    imports: Imported
    _positional: list[Make]
    _keywords: dict[str, Make]

    def rebuild(self, arrays: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other arrays in the place of these."""
        positional = tuple(make(arrays) for make in self._positional)
        return positional, {name: make(arrays) for name, make in self._keywords.items()}


# More values than this are a program's state, and no arguments.
_MOST_VALUES = 1 << 16

_HINT = (
    "capture a function of arrays, numbers, texts and what holds them: tuples, lists, dicts, "
    "dataclasses, objects with attributes, registered pytrees"
)
_BUILD_HINT = (
    'name a function without parameters that makes it: build={{"{path}": "module:function"}}'
)


class _Reader:
    """Walks through arguments and notes what they hold."""

    def __init__(self, build: Mapping[str, str], names: Names) -> None:
        self.arrays: dict[str, Any] = {}
        self.numbers: dict[str, np.ndarray[Any, Any]] = {}
        self.names = names
        self.imports = Imports(self.names.give)
        self._build = build
        self._met: dict[Hashable, str] = {}
        # The structures around the value that is read.
        self._around: list[Any] = []
        self._count = 0

    def read(self, value: Any, path: str, *, is_static: bool = False) -> tuple[str, Make]:
        """How a script writes `value`, and how to make it again from other arrays.

        `path` says where the arguments hold it. What is static becomes no input."""
        self._count += 1
        if self._count > _MOST_VALUES:
            raise CaptureError(f"the arguments hold more than {_MOST_VALUES} values", _HINT)
        if path in self._build:
            module, _, name = self._build[path].partition(":")
            return f"{self.imports.attribute(module, name)}()", lambda arrays: value
        if is_array(value):
            return self._array(value, path, is_static=is_static)
        if type(value) in (bool, int, float) and not is_static:
            return self._number(value, path)
        text = self._constant(value)
        if text is None and not self._is_inside(value):
            structure = structures.take_apart(value)
            if structure is not None:
                return self._structure(value, structure, path, is_static=is_static)
            if structures.is_function(value):
                text = self.imports.expression(value)
            structure = structures.take_attributes(value) if text is None else None
            if structure is not None:
                return self._structure(value, structure, path, is_static=is_static)
        if text is None:
            raise self._refused(value, path)
        return text, lambda arrays: value

    def _is_inside(self, value: Any) -> bool:
        return any(value is outer for outer in self._around)

    def _refused(self, value: Any, path: str) -> CaptureError:
        named = _type_name(value)
        if self._is_inside(value):
            return CaptureError(f"argument `{path}` is a {named} that holds itself", _HINT)
        if callable(value):
            problem = (
                f"argument `{path}` is `{_callable_name(value)}`, which no module holds by a name"
            )
            return CaptureError(problem, _BUILD_HINT.format(path=path))
        problem = f"argument `{path}` is of type {named}, which no fixture can hold"
        return CaptureError(problem, _HINT)

    def _array(self, value: Any, path: str, *, is_static: bool) -> tuple[str, Make]:
        if is_static:
            raise CaptureError(
                f"argument `{path}` is an array in a static place, where JAX does not trace it",
                _BUILD_HINT.format(path=path),
            )
        if keys.is_typed(value):
            return self._key(value, path)
        given = self._given(value, path, value)
        return given, lambda arrays: arrays[given]

    def _given(self, value: Any, path: str, array: Any) -> str:
        """The name of the input `array`, which stands for `value`."""
        same = _identity(value)
        given = self._met.get(same)
        if given is None:
            given = self.names.give(path)
            self._met[same] = given
            self.arrays[given] = array
        return given

    def _key(self, value: Any, path: str) -> tuple[str, Make]:
        """A key of random numbers with a type of its own: its words are an array."""
        words = keys.words(value)
        given = self._given(value, path, words)
        kind = keys.kind(value)
        self.imports.framework("jax")

        def make(arrays: Mapping[str, Any]) -> Any:
            return value if arrays[given] is words else keys.wrap(arrays[given], kind)

        return f"jax.random.wrap_key_data({given}, impl={kind!r})", make

    def _number(self, value: Any, path: str) -> tuple[str, Make]:
        kind = type(value).__name__
        if kind == "int" and not -(2**63) <= value < 2**63:
            return repr(value), lambda arrays: value
        dtype: Any = {"bool": np.bool_, "int": np.int64, "float": np.float64}[kind]
        given = self.names.give(path)
        self.numbers[given] = np.array(value, dtype)
        return f"{kind}({given})", lambda arrays: value

    def _structure(
        self, value: Any, structure: Structure, path: str, *, is_static: bool
    ) -> tuple[str, Make]:
        name = ""
        if structure.kind is not None:
            found = self.imports.expression(structure.kind)
            if found is None:
                raise CaptureError(
                    f"argument `{path}` is a {_type_name(value)}, a class that no module holds by its name",
                    "define the class at the top of a module",
                )
            name = found
        self._around.append(value)
        read = [
            self.read(part.value, f"{path}.{part.label}", is_static=is_static or part.is_static)
            for part in structure.parts
        ]
        self._around.pop()

        def make(arrays: Mapping[str, Any]) -> Any:
            again = [make_part(arrays) for _, make_part in read]
            # What the function is given stays the same object where nothing in it changes.
            pairs = zip(again, structure.parts, strict=True)
            same = all(new is part.value for new, part in pairs)
            return value if same else structure.make(again)

        return structure.write(name, [text for text, _ in read]), make

    def _constant(self, value: Any) -> str | None:
        """The text of what stands in the script as it is."""
        if value is None or isinstance(value, (bool, int, str, bytes)) and type(value) in _LITERALS:
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else f"float('{value}')"
        if value is Ellipsis:
            return "..."
        if isinstance(value, enum.Enum):
            kind = self.imports.expression(type(value))
            return f"{kind}[{value.name!r}]" if kind is not None else None
        if type(value) in (set, frozenset, slice, range):
            return self._collection(value)
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, (torch.dtype, torch.memory_format)):
            self.imports.framework("torch")
            return str(value)
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            self.imports.framework("numpy", "np")
            return f"np.dtype({np.dtype(value).name!r})"
        return None

    def _collection(self, value: Any) -> str | None:
        """The text of a set of constants, a slice or a range."""
        kind = type(value)
        if kind is range:
            return repr(value)
        parts = (value.start, value.stop, value.step) if kind is slice else sorted(value, key=repr)
        texts = [self._constant(part) for part in parts]
        if None in texts:
            return None
        joined = ", ".join(map(str, texts))
        return f"slice({joined})" if kind is slice else f"{kind.__name__}([{joined}])"


_LITERALS = (bool, int, str, bytes)


def _type_name(value: Any) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{prefix}{kind.__qualname__}"


def _callable_name(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name and value.__module__ else _type_name(value)


def _identity(value: Any) -> Hashable:
    """What two arrays have in common that are the same elements in the same places."""
    try:
        if isinstance(value, np.ndarray):
            place = value.__array_interface__["data"][0]
            return place, value.shape, value.strides, value.dtype
        # A tensor with a gradient is one of its own.
        if tensors.is_torch(value) and not value.requires_grad:
            bits = value.is_conj(), value.is_neg()
            place = value.data_ptr(), value.device
            return place, tuple(value.shape), tuple(value.stride()), value.dtype, bits
    except (AttributeError, RuntimeError):
        # Tensors of tracers lie nowhere.
        pass
    return id(value)


class Parameters:
    """The names of a function's positional arguments, found out once for each number of them."""

    def __init__(
        self, names: Sequence[str] | None = None, function: Callable[..., Any] | None = None
    ) -> None:
        """Those of `function`, or `names` if they are given."""
        self._given = names
        self._function = function
        self._known: dict[int, list[str]] = {}

    def first(self, count: int) -> list[str]:
        """The names of the first `count` positional arguments."""
        known = self._known.get(count)
        if known is None:
            given = self._given
            names = list(given) if given is not None else _signature_names(self._function, count)
            names += [f"arg{number}" for number in range(len(names), count)]
            known = self._known[count] = names[:count]
        return known


def read(
    parameters: Parameters,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    build: Mapping[str, str] | None = None,
) -> Arguments:
    """The arguments of a call of a function with these parameters.

    `build` names functions as `module:name` by the paths of the values that they make.
    Raises :class:`CaptureError` for an argument that a fixture cannot hold."""
    names = parameters.first(len(args))
    reader = _Reader(build or {}, Names())
    positional = [reader.read(value, name) for name, value in zip(names, args, strict=False)]
    keywords = {name: reader.read(value, name) for name, value in kwargs.items()}
    texts = [text for text, _ in positional]
    texts += [f"{name}={text}" for name, (text, _) in keywords.items()]
    return Arguments(
        arrays=reader.arrays,
        numbers=reader.numbers,
        text=_joined(texts),
        names=reader.names,
        imports=reader.imports.done(),
        _positional=[make for _, make in positional],
        _keywords={name: make for name, (_, make) in keywords.items()},
    )


class Options:
    """What a script tells the class of a module that it builds: constants, except for tensors."""

    def __init__(self, names: Names) -> None:
        self._reader = _OptionReader({}, names)

    @property
    def arrays(self) -> dict[str, Any]:
        """The tensors among what was written, by the names of inputs."""
        return self._reader.arrays

    def imports(self) -> Imported:
        """What the script imports for them."""
        return self._reader.imports.done()

    def write(self, value: Any, path: str) -> str | None:
        """How a script writes `value`; `None` if it cannot."""
        try:
            return self._reader.read(value, path, is_static=True)[0]
        except CaptureError:
            return None


class _OptionReader(_Reader):
    """Reads what is static, and makes inputs of tensors that are not trained."""

    def _array(self, value: Any, path: str, *, is_static: bool) -> tuple[str, Make]:
        if getattr(value, "requires_grad", False):
            raise CaptureError(f"option `{path}` is trained")
        return super()._array(value, path, is_static=False)


def _joined(texts: Sequence[str]) -> str:
    """Arguments between parentheses: in one line, or a line each where that is too long."""
    line = ", ".join(texts)
    return line if len(line) < 80 else "".join(f"\n    {text}," for text in texts) + "\n"


def _signature_names(function: Callable[..., Any] | None, count: int) -> list[str]:
    if function is None:
        return []
    # An operator of torch.library, or one of its overloads.
    schema = getattr(function, "_schema", None)
    schema = schema or getattr(getattr(function, "default", None), "_schema", None)
    if schema is not None:
        return [argument.name for argument in schema.arguments]
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        # Compiled functions have none.
        return []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{number}" for number in range(max(count - len(names), 0))]
    return names


@dataclass
class Results:
    """The arrays that a call returned."""

    # Arrays by name, in order.
    arrays: dict[str, Any]
    # What a script writes for each, from `result`.
    texts: dict[str, str]


def read_results(value: Any, given: Sequence[str] | None, names: Names) -> Results:
    """The arrays in what a call returned, called `given` in their order if that is not `None`.

    Raises :class:`CaptureError` if there is none, or another number of them."""
    found: list[tuple[str, str, Any]] = []
    _collect(value, "", "result", found)
    if not found:
        raise CaptureError(
            f"the function returned a {type(value).__qualname__}, which holds no array"
        )
    if given is not None and len(given) != len(found):
        raise CaptureError(
            f"the function returned {len(found)} arrays, but outputs names {len(given)}"
        )
    results = Results({}, {})
    for number, (name, text, array) in enumerate(found):
        wanted = given[number] if given is not None else name or _default_name(array)
        final = names.give(wanted)
        results.arrays[final] = array
        results.texts[final] = text
    return results


def _default_name(array: Any) -> str:
    is_float = "float" in str(array.dtype)
    return "loss" if is_float and not tuple(array.shape) else "out"


def _collect(value: Any, name: str, text: str, found: list[tuple[str, str, Any]]) -> None:
    if is_array(value):
        if keys.is_typed(value):
            value, text = keys.words(value), f"jax.random.key_data({text})"
        if not any(array is value for _, _, array in found):
            found.append((name, text, value))
        return
    for label, inner, item in _held(value, text):
        # Items of a tuple are told by their numbers; what has a name needs nothing before it.
        prefix = name or ("out" if label.isdecimal() else "")
        _collect(item, f"{prefix}_{label}" if prefix else label, inner, found)


def _held(value: Any, text: str) -> list[tuple[str, str, Any]]:
    """The values that a result holds: what names them, and what a script writes for them."""
    if isinstance(value, Mapping):
        return [
            (structures.label_of(key), _item_text(text, number, key), item)
            for number, (key, item) in enumerate(value.items())
        ]
    if isinstance(value, (list, tuple)):
        labels = getattr(value, "_fields", None) or map(str, range(len(value)))
        return [
            (label, f"{text}[{number}]", item)
            for number, (label, item) in enumerate(zip(labels, value, strict=True))
        ]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            (label, f"{text}.{label}", item)
            for label, item in structures.attributes_of(value).items()
        ]
    if structures.flattened(value) is None:
        return []
    return [
        (part.label, f"replay.children({text})[{number}]", part.value)
        for number, part in enumerate(structures.tree_children(value))
    ]


def _item_text(text: str, number: int, key: Any) -> str:
    if isinstance(key, (str, bytes, int, bool)) and type(key) in _LITERALS:
        return f"{text}[{key!r}]"
    return f"list({text}.values())[{number}]"


def holds_array(value: Any) -> bool:
    """Whether there is an array in what a call returned."""
    found: list[tuple[str, str, Any]] = []
    _collect(value, "", "result", found)
    return bool(found)
