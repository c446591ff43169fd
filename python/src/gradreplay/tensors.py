"""Tensors as safetensors files hold them, and as a framework sees them.

A :class:`Tensor` is packed elements, row-major, and the layout that they had or will have in memory.
:func:`read` and :func:`write` know files, :func:`take` makes a tensor from an array of NumPy, PyTorch
or JAX, and :func:`place` makes an array of a framework from a tensor: with its true strides, in an arena
whose other bytes are NaN or zero where that is asked for.

Neither torch, jax nor ml_dtypes is imported unless a tensor needs it.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

Bytes = npt.NDArray[np.uint8]
Framework = Literal["numpy", "torch", "jax"]
Surroundings = Literal["none", "zero", "nan"]

# Bytes before and after a tensor whose surroundings count: as many as the tensor has, within these.
_GUARD_LEAST = 4 << 10
_GUARD_MOST = 64 << 20
# What allocators of the frameworks align to; guards keep it.
_ALIGNMENT = 64


class TensorError(Exception):
    """A tensor that cannot be read, written or placed. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class TensorFileError(TensorError):
    """A file of tensors that cannot be read or written."""


class MissingPackage(TensorError):
    """A tensor needs a package that this interpreter does not have."""


@dataclass(frozen=True)
class DType:
    """An element type: its name in safetensors, in NumPy (and ml_dtypes) and PyTorch, and its size."""

    name: str
    numpy_name: str
    itemsize: int
    # What lies around poisoned tensors, little-endian: a NaN, and the greatest value of integers.
    poison: bytes
    ml_dtypes: bool = False

    @property
    def torch_name(self) -> str:
        """The attribute of `torch` with this type."""
        return self.numpy_name

    @property
    def bits(self) -> np.dtype[Any]:
        """The unsigned integer of the same size."""
        return np.dtype(f"<u{self.itemsize}")

    def numpy(self) -> np.dtype[Any]:
        """The type of NumPy's arrays.

        Raises :class:`MissingPackage` if it is one of ml_dtypes, which is not there."""
        if not self.ml_dtypes:
            return np.dtype(self.numpy_name)
        try:
            module = importlib.import_module("ml_dtypes")
        except ImportError as error:
            raise MissingPackage(
                f"numpy has no {self.numpy_name} without the package ml_dtypes",
                "pip install ml_dtypes",
            ) from error
        return cast("np.dtype[Any]", np.dtype(getattr(module, self.numpy_name)))


_DTYPES = (
    DType("BOOL", "bool", 1, b"\x01"),
    DType("U8", "uint8", 1, b"\xff"),
    DType("I8", "int8", 1, b"\x7f"),
    DType("U16", "uint16", 2, b"\xff\xff"),
    DType("I16", "int16", 2, b"\xff\x7f"),
    DType("U32", "uint32", 4, b"\xff\xff\xff\xff"),
    DType("I32", "int32", 4, b"\xff\xff\xff\x7f"),
    DType("U64", "uint64", 8, b"\xff" * 8),
    DType("I64", "int64", 8, b"\xff" * 7 + b"\x7f"),
    DType("F8_E4M3", "float8_e4m3fn", 1, b"\x7f", ml_dtypes=True),
    DType("F8_E5M2", "float8_e5m2", 1, b"\x7f", ml_dtypes=True),
    DType("F16", "float16", 2, b"\x00\x7e"),
    DType("BF16", "bfloat16", 2, b"\xc0\x7f", ml_dtypes=True),
    DType("F32", "float32", 4, b"\x00\x00\xc0\x7f"),
    DType("F64", "float64", 8, b"\x00\x00\x00\x00\x00\x00\xf8\x7f"),
)
DTYPES: Mapping[str, DType] = {dtype.name: dtype for dtype in _DTYPES}
_BY_NUMPY_NAME: Mapping[str, DType] = {dtype.numpy_name: dtype for dtype in _DTYPES}


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie in its buffer, counted in elements.

    `storage` counts from the tensor's first element on; `offset` elements lie before that."""

    strides: tuple[int, ...]
    storage: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Tensor:
    """Packed elements, row-major, and how they lie in memory; no layout means packed there, too."""

    dtype: DType
    shape: tuple[int, ...]
    data: Bytes
    layout: Layout | None = None

    @property
    def count(self) -> int:
        """How many elements there are."""
        return _product(self.shape)

    def array(self) -> npt.NDArray[Any]:
        """The elements as a packed array of NumPy, which shares the bytes."""
        return self.data.view(self.dtype.numpy()).reshape(self.shape)


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a packed, row-major tensor, in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of a buffer a tensor reaches, from its first to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


# Files


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a safetensors file, with the layouts of its metadata; the file is mapped.

    Raises :class:`TensorError` if the file is damaged or holds a dtype that replay does not know."""
    metadata = read_metadata(path)
    # safetensors has checked the header: sizes, order and that no byte is left over.
    content = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    header.pop("__metadata__", None)
    return {
        name: _read_one(path, name, entry, content[8 + length :], metadata)
        for name, entry in header.items()
    }


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata of a safetensors file.

    Raises :class:`TensorFileError` if it cannot be read."""
    try:
        with safe_open(os.fspath(path), framework="np") as checked:
            return checked.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise TensorFileError(f"cannot read {os.fspath(path)}: {error}") from error


def _read_one(
    path: str | os.PathLike[str],
    name: str,
    entry: Mapping[str, Any],
    content: Bytes,
    metadata: Mapping[str, str],
) -> Tensor:
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise TensorError(
            f"{os.fspath(path)}: `{name}` is {entry['dtype']}, which is not supported"
        )
    start, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    try:
        layout = _read_layout(name, shape, metadata)
    except ValueError as error:
        raise TensorError(f"{os.fspath(path)}: the layout of `{name}`: {error}") from error
    return Tensor(dtype, shape, np.asarray(content[start:end]), layout)


def _read_layout(name: str, shape: tuple[int, ...], metadata: Mapping[str, str]) -> Layout | None:
    text = metadata.get(f"{name}.strides")
    if text is None:
        return None
    strides = tuple(int(item) for item in text.strip().strip("[]()").split(",") if item.strip())
    if len(strides) != len(shape):
        raise ValueError(f"strides {list(strides)} for shape {list(shape)}")
    if any(stride < 0 for stride in strides):
        raise ValueError(f"strides {list(strides)} are not all at least 0")
    needed = reach(shape, strides)
    storage = int(metadata.get(f"{name}.storage", needed))
    if storage < needed:
        raise ValueError(f"a storage of {storage} elements, of which {needed} are reached")
    return Layout(strides, storage, int(metadata.get(f"{name}.offset", 0)))


def layout_metadata(name: str, tensor: Tensor) -> dict[str, str]:
    """What a file's metadata say about a tensor's layout: nothing for a packed one."""
    layout = tensor.layout
    if layout is None:
        return {}
    entries = {f"{name}.strides": json.dumps(list(layout.strides))}
    if layout.storage != reach(tensor.shape, layout.strides):
        entries[f"{name}.storage"] = str(layout.storage)
    if layout.offset:
        entries[f"{name}.offset"] = str(layout.offset)
    return entries


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a safetensors file beside `path` and renames it, so that a file that is there is whole.

    Layouts go into the metadata."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            for piece in pieces(tensors, metadata or {}):
                file.write(piece)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TensorFileError(f"cannot write {target}: {error.strerror or error}") from error


def pieces(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[Any]:
    """The bytes of a file: its header, with layouts in the metadata, and the elements of each tensor."""
    order = places(tensors)
    yield header({name: tensors[name] for name in order}, order, metadata)
    for name in order:
        yield tensors[name].data.data


def places(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
    """Where the elements of each tensor begin and end behind the header, in their order."""
    # Wide elements first, as safetensors itself writes them: every tensor is aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    ends = list(itertools.accumulate(tensors[name].data.nbytes for name in order))
    return dict(zip(order, zip([0, *ends], ends, strict=False), strict=True))


_encode = json.JSONEncoder(separators=(",", ":")).encode


def header(
    tensors: Mapping[str, Tensor],
    places: Mapping[str, tuple[int, int]],
    metadata: Mapping[str, str],
    least: int = 0,
) -> bytes:
    """What a safetensors file begins with: `least` bytes, or as many as it takes.

    `places` are where the elements of each tensor begin and end behind it, layouts go into the metadata."""
    texts = dict(metadata)
    for name, tensor in tensors.items():
        texts.update(layout_metadata(name, tensor))
    entries: dict[str, Any] = {"__metadata__": texts} if texts else {}
    for name, tensor in tensors.items():
        entries[name] = {
            "dtype": tensor.dtype.name,
            "shape": list(tensor.shape),
            "data_offsets": list(places[name]),
        }
    text = _encode(entries).encode()
    text += b" " * max(-len(text) % 8, least - 8 - len(text))
    return len(text).to_bytes(8, "little") + text


# From arrays


def is_torch(value: object) -> bool:
    """Whether a value is a tensor of PyTorch; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_jax(value: object) -> bool:
    """Whether a value is an array of JAX; imports nothing."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, getattr(jax, "Array", ()))


def take(name: str, value: object) -> Tensor:
    """The elements of an array of NumPy, PyTorch or JAX, with the layout that it has.

    Raises :class:`TensorError` if it is none, or of a dtype that replay does not know."""
    if is_torch(value):
        return _take_torch(name, value)
    if is_jax(value):
        return _take_jax(name, value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _take_numpy(name, np.asarray(value))
    raise TensorError(
        f"`{name}` is {_named_type(value)}, not an array of numpy, torch or jax",
        "a number of Python has no dtype: return an array of the dtype that replay.toml names"
        if isinstance(value, (bool, int, float))
        else None,
    )


def _named_type(value: object) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {prefix}{kind.__qualname__}"


def _known(name: str, given: Any) -> DType:
    """What a dtype of NumPy or PyTorch is called here."""
    numpy_name = _name_of(given)
    dtype = _BY_NUMPY_NAME.get(numpy_name)
    if dtype is None:
        raise TensorError(f"`{name}` is {numpy_name}, which is not supported")
    return dtype


@functools.cache
def _name_of(dtype: Any) -> str:
    # NumPy puts it together anew each time.
    return dtype.name if isinstance(dtype, np.dtype) else str(dtype).removeprefix("torch.")


def _bytes(array: npt.NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _take_numpy(name: str, array: npt.NDArray[Any], *, layout: bool = True) -> Tensor:
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    dtype = _known(name, array.dtype)
    strides = tuple(stride // dtype.itemsize for stride in array.strides)
    whole = all(stride % dtype.itemsize == 0 for stride in array.strides)
    known = layout and whole and all(stride >= 0 for stride in strides)
    return Tensor(
        dtype,
        array.shape,
        _bytes(array),
        _layout(array.shape, strides, reach(array.shape, strides)) if known else None,
    )


def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], storage: int, offset: int = 0
) -> Layout | None:
    """A layout, unless it is that of a packed tensor that fills its buffer."""
    # The stride of a dimension of one element, or of an empty tensor, says nothing.
    tight = packed_strides(shape)
    packed = 0 in shape or all(
        size == 1 or a == b for size, a, b in zip(shape, strides, tight, strict=True)
    )
    if packed and offset == 0 and storage <= _product(shape):
        return None
    return Layout(strides, storage, offset)


def _take_torch(name: str, value: Any) -> Tensor:
    torch: Any = sys.modules["torch"]
    if value.layout is not torch.strided:
        raise TensorError(f"`{name}` is a tensor of layout {value.layout}, not a strided one")
    if value.device.type == "meta":
        raise TensorError(f"`{name}` is a tensor without elements, on device `meta`")
    dtype = _known(name, value.dtype)
    value = value.detach().resolve_neg()
    shape, strides = tuple(value.shape), tuple(value.stride())
    offset = value.storage_offset()
    storage = value.untyped_storage().nbytes() // dtype.itemsize - offset
    try:
        flat = value.cpu().contiguous().reshape(-1)
        if flat.numel() == 1:
            # A single element is contiguous whatever its stride, which `view` does not accept.
            flat = flat.as_strided((1,), (1,))
        data: Bytes = flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
    except (RuntimeError, TypeError) as error:
        # A tensor of a transformation or spread over devices: PyTorch says which.
        raise TensorError(f"`{name}` has no elements to read: {_first_line(error)}") from error
    return Tensor(dtype, shape, data, _layout(shape, strides, storage, offset))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else repr(error)


def _take_jax(name: str, value: Any) -> Tensor:
    try:
        array = np.asarray(value)
    except Exception as error:
        # A tracer, a deleted buffer, an array spread over processes: JAX says which.
        raise TensorError(f"`{name}` has no elements to read: {_first_line(error)}") from error
    return _take_numpy(name, array, layout=False)


# Into arrays


def place(
    name: str,
    tensor: Tensor,
    framework: Framework,
    device: str = "cpu",
    surroundings: Surroundings = "none",
) -> Any:
    """An array of the framework with the tensor's elements and strides, in memory of its own.

    With `surroundings` the bytes around the tensor, and those between its elements, are zero or
    NaN (of integers: the greatest value). JAX has no strides: its arrays are packed."""
    if framework == "jax":
        return _place_jax(tensor, device)
    arena, first = _arena(name, tensor, surroundings)
    strides = tensor.layout.strides if tensor.layout else packed_strides(tensor.shape)
    if framework == "torch":
        return _place_torch(tensor, arena, strides, first, device)
    typed = arena.view(tensor.dtype.numpy())[first:]
    return _strided(typed, tensor.shape, strides)


def _place_torch(
    tensor: Tensor, arena: npt.NDArray[Any], strides: tuple[int, ...], first: int, device: str
) -> Any:
    """The tensor in a storage that begins inside the arena, so that its offset is the captured one."""
    torch: Any = importlib.import_module("torch")
    offset = tensor.layout.offset if tensor.layout else 0
    whole = torch.from_numpy(arena.view(np.uint8)).to(device)
    # What comes by DLPack is a storage that begins with its first element. It ends with the arena: what a
    # revision reads behind its tensor is to show.
    storage = torch.from_dlpack(whole[(first - offset) * tensor.dtype.itemsize :])
    typed = storage.view(getattr(torch, tensor.dtype.torch_name))
    return torch.as_strided(typed, tensor.shape, strides, offset)


def _place_jax(tensor: Tensor, device: str) -> Any:
    jax: Any = importlib.import_module("jax")
    # A copy: JAX may keep aligned memory of NumPy's instead of copying it.
    target = jax.devices("gpu" if device == "cuda" else device)[0]
    elements = np.array(tensor.array())
    if jax.dtypes.canonicalize_dtype(elements.dtype) != elements.dtype:
        raise TensorError(
            f"JAX makes {jax.dtypes.canonicalize_dtype(elements.dtype)} of {elements.dtype}",
            "jax.config.update('jax_enable_x64', True) before the first array keeps 64 bits",
        )
    return jax.device_put(elements, target)


def _strided(
    flat: npt.NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> npt.NDArray[Any]:
    steps = tuple(stride * flat.itemsize for stride in strides)
    return cast("npt.NDArray[Any]", np.ndarray(shape, flat.dtype, buffer=flat, strides=steps))


def _arena(name: str, tensor: Tensor, surroundings: Surroundings) -> tuple[npt.NDArray[Any], int]:
    """The memory that a tensor lies in, as integers of its elements' size, and where it begins.

    What lies around it is zero where nothing is asked for, too: a read outside gives the same each time."""
    item = tensor.dtype.itemsize
    layout = tensor.layout or Layout(packed_strides(tensor.shape), tensor.count)
    extent = layout.offset + layout.storage
    guard = min(max(extent * item, _GUARD_LEAST), _GUARD_MOST)
    guard = -(-guard // _ALIGNMENT) * _ALIGNMENT // item
    arena = _aligned(extent + 2 * guard, tensor.dtype.bits)
    if surroundings == "nan":
        arena[...] = np.frombuffer(tensor.dtype.poison, tensor.dtype.bits)[0]
    first = guard + layout.offset
    packed = tensor.data.view(tensor.dtype.bits).reshape(tensor.shape)
    placed = _strided(arena[first:], tensor.shape, layout.strides)
    placed[...] = packed
    if tensor.layout and not np.array_equal(placed, packed):
        raise TensorError(
            f"elements of `{name}` share a place and differ: strides {list(layout.strides)}"
        )
    return arena, first


def _aligned(count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    # Pages of zeros that nobody touches cost nothing.
    raw = np.zeros(count * dtype.itemsize + _ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % _ALIGNMENT
    return raw[shift : shift + count * dtype.itemsize].view(dtype)
