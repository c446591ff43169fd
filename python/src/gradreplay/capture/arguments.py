"""The arguments and results of a call: which arrays they hold, by which names, and how to write the call.

Arrays and numbers become inputs of the harness. What a call is told besides (`None`, texts) stands in the
drafted script as it is.
"""

from __future__ import annotations

import functools
import keyword
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tensors
from ..signatures import signature
from .errors import CaptureError

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
    inputs names call module parameters functional_call run ones others pull not_known_yet""".split()
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
    _positional: list[Make]
    _keywords: dict[str, Make]

    def rebuild(self, arrays: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other arrays in the place of these."""
        positional = tuple(make(arrays) for make in self._positional)
        return positional, {name: make(arrays) for name, make in self._keywords.items()}


class _Reader:
    """Walks through arguments and notes what they hold."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.numbers: dict[str, np.ndarray[Any, Any]] = {}
        self.names = Names()
        self._met: dict[Hashable, str] = {}

    def read(self, value: Any, name: str) -> tuple[str, Make]:
        """How a script writes `value`, and how to make it again from other arrays."""
        if is_array(value):
            return self._array(value, name)
        if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
            return self._number(value, name)
        if value is None or isinstance(value, (str, bytes)):
            return repr(value), lambda arrays: value
        if isinstance(value, (list, tuple)) and _is_plain(value):
            return self._sequence(value, name)
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return self._mapping(value, name)
        text = _constant(value)
        if text is not None:
            return text, lambda arrays: value
        kind = type(value)
        prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise CaptureError(
            f"argument `{name}` is a {prefix}{kind.__qualname__}, which no fixture can hold",
            "capture a function of arrays, numbers, texts, and tuples, lists and dicts of them",
        )

    def _array(self, value: Any, name: str) -> tuple[str, Make]:
        same = _identity(value)
        given = self._met.get(same)
        if given is None:
            given = self.names.give(name)
            self._met[same] = given
            self.arrays[given] = value
        return given, lambda arrays: arrays[given]

    def _number(self, value: Any, name: str) -> tuple[str, Make]:
        kind = type(value).__name__
        if kind == "int" and not -(2**63) <= value < 2**63:
            return repr(value), lambda arrays: value
        dtype: Any = {"bool": np.bool_, "int": np.int64, "float": np.float64}[kind]
        given = self.names.give(name)
        self.numbers[given] = np.array(value, dtype)
        return f"{kind}({given})", lambda arrays: value

    def _sequence(self, value: Sequence[Any], name: str) -> tuple[str, Make]:
        read = [self.read(item, f"{name}_{number}") for number, item in enumerate(value)]
        texts, makes = [text for text, _ in read], [make for _, make in read]
        if isinstance(value, list):
            return f"[{', '.join(texts)}]", lambda arrays: [make(arrays) for make in makes]
        joined = f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
        kind: Any = type(value)
        return joined, lambda arrays: kind(make(arrays) for make in makes)

    def _mapping(self, value: Mapping[str, Any], name: str) -> tuple[str, Make]:
        read = {key: self.read(item, f"{name}_{key}") for key, item in value.items()}
        text = ", ".join(f"{key!r}: {text}" for key, (text, _) in read.items())
        makes = {key: make for key, (_, make) in read.items()}
        return f"{{{text}}}", lambda arrays: {key: make(arrays) for key, make in makes.items()}


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


def _is_plain(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return type(value) in (list, tuple) or (torch is not None and type(value) is torch.Size)


def _constant(value: Any) -> str | None:
    """The text of a dtype of PyTorch or NumPy, of `...` and of slices of numbers."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, (torch.dtype, torch.memory_format)):
        return str(value)
    if value is Ellipsis:
        return "..."
    if isinstance(value, (type, np.dtype)):
        try:
            return f"np.dtype({np.dtype(value).name!r})"
        except TypeError:
            return None
    return None


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


def read(parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments of a call of a function with these parameters.

    Raises :class:`CaptureError` for an argument that a fixture cannot hold."""
    names = parameters.first(len(args))
    reader = _Reader()
    positional = [reader.read(value, name) for name, value in zip(names, args, strict=False)]
    keywords = {name: reader.read(value, name) for name, value in kwargs.items()}
    texts = [text for text, _ in positional]
    texts += [f"{name}={text}" for name, (text, _) in keywords.items()]
    return Arguments(
        arrays=reader.arrays,
        numbers=reader.numbers,
        text=", ".join(texts),
        names=reader.names,
        _positional=[make for _, make in positional],
        _keywords={name: make for name, (_, make) in keywords.items()},
    )


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
        if not any(array is value for _, _, array in found):
            found.append((name, text, value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{name}_{key}" if name else str(key)
            _collect(item, inner, f"{text}[{key!r}]", found)
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        for number, item in enumerate(value):
            label = fields[number] if fields else str(number)
            prefix = name or ("" if fields else "out")
            inner = f"{prefix}_{label}" if prefix else label
            _collect(item, inner, f"{text}[{number}]", found)


def holds_array(value: Any) -> bool:
    """Whether there is an array in what a call returned."""
    found: list[tuple[str, str, Any]] = []
    _collect(value, "", "result", found)
    return bool(found)
