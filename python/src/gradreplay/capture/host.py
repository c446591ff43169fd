"""Copies of tensors in this process's memory, as a fixture holds them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import tensors
from ..tensors import DTYPES, Tensor
from .errors import CaptureError, tell
from .staged import Place

# The harness's name of each dtype. Other formats of 8 bits have none: their bytes are kept, and the script
# views them.
_HARNESS = {
    "BOOL": "bool", "U8": "u8", "I8": "i8", "U16": "u16", "I16": "i16", "U32": "u32", "I32": "i32",
    "U64": "u64", "I64": "i64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64",
    "F8_E4M3": "f8_e4m3", "F8_E5M2": "f8_e5m2",
}  # fmt: skip

_NO_BYTES = np.empty(0, np.uint8)

_FLOAT8 = {DTYPES[name].numpy_name for name in ("F8_E4M3", "F8_E5M2")}


@dataclass(frozen=True)
class Taken:
    """A tensor as the fixture holds it."""

    tensor: Tensor
    # The dtype that its bytes stand for, if harnesses have none like it.
    view: str | None = None
    # Where its elements lie in a file, if they are there already and no longer here.
    place: Place | None = None

    @property
    def dtype(self) -> str:
        """The dtype by the harness's name."""
        return _HARNESS[self.tensor.dtype.name]

    @property
    def is_float(self) -> bool:
        """Whether the harness takes it for floating point."""
        return self.dtype in ("f8_e4m3", "f8_e5m2", "f16", "bf16", "f32", "f64")

    def owned(self) -> Taken:
        """The same in memory that nobody else writes to."""
        return replace(self, tensor=replace(self.tensor, data=self.tensor.data.copy()))

    def metadata(self, name: str) -> dict[str, str]:
        """What the file's metadata say of it, besides its layout."""
        return {f"{name}.view": self.view} if self.view else {}

    def finite(self) -> bool:
        """Whether no element is a NaN or an infinity."""
        data = self.tensor.data
        if self.view is not None or self.dtype in ("f8_e4m3", "f8_e5m2"):
            return _finite_float8(data, self.view or self.tensor.dtype.numpy_name)
        if self.dtype == "bf16":
            return not bool(((data.view("<u2") & 0x7F80) == 0x7F80).any())
        if self.is_float:
            return bool(np.isfinite(data.view(self.tensor.dtype.numpy())).all())
        return True


def _finite_float8(data: tensors.Bytes, view: str) -> bool:
    if "e5m2" in view and not view.endswith("fnuz"):
        return not bool(((data & 0x7C) == 0x7C).any())
    if view == "float8_e4m3fn":
        return not bool(((data & 0x7F) == 0x7F).any())
    return not (view.endswith("fnuz") and bool((data == 0x80).any()))


def take(name: str, value: Any) -> Taken:
    """The elements of an array, which may share its memory.

    Raises :class:`CaptureError` if it has none, or a dtype that fixtures cannot hold."""
    kind = _float8(value)
    try:
        if kind is not None:
            value = value.view(sys.modules["torch"].uint8 if tensors.is_torch(value) else np.uint8)
        taken = tensors.take(name, value)
    except tensors.TensorError as error:
        raise CaptureError(str(error), error.hint) from error
    if taken.layout is not None and (not taken.shape or 0 in taken.shape):
        # A scalar has no strides, and those of nothing say nothing.
        taken = replace(taken, layout=None)
    if taken.layout is not None and _overlaps(taken.shape, taken.layout.strides):
        text = f"`{name}` has elements that share their places, as unfold makes them: it is packed"
        tell(CaptureError(text), strict=False)
        taken = replace(taken, layout=None)
    return Taken(taken, kind)


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements share a place, but for those along a stride of 0."""
    steps = sorted((stride, size) for size, stride in zip(shape, strides, strict=True))
    reach = 0
    for stride, size in steps:
        if stride == 0 or size == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _float8(value: Any) -> str | None:
    """The name of a format of 8 bits that harnesses do not have."""
    return _float8_name(getattr(value, "dtype", None))


@functools.cache
def _float8_name(dtype: Any) -> str | None:
    name = str(dtype).removeprefix("torch.")
    return name if name.startswith("float8") and name not in _FLOAT8 else None


def number(value: np.ndarray[Any, Any]) -> Taken:
    """A number of Python that was passed to the function."""
    data = np.frombuffer(value.tobytes(), np.uint8)
    dtype = {"bool": "BOOL", "int64": "I64", "float64": "F64"}[value.dtype.name]
    return Taken(Tensor(DTYPES[dtype], (), data))


def inputs(
    arrays: Mapping[str, Any], numbers: Mapping[str, np.ndarray[Any, Any]], *, share: bool
) -> dict[str, Taken]:
    """The arguments of a call; the memory of arrays is shared or copied."""
    taking = take if share else copied
    taken = {name: taking(name, value) for name, value in arrays.items()}
    return taken | {name: number(value) for name, value in numbers.items()}


def is_here(value: Any) -> bool:
    """Whether the elements of an array lie in this process's memory, where they can be read at once."""
    return not (tensors.is_torch(value) and value.device.type == "cuda")


def copied(name: str, value: Any) -> Taken:
    """The elements of an array in memory that nobody else writes to.

    Raises :class:`CaptureError` as :func:`take` does."""
    taken = take(name, value)
    # What comes from a device is a copy already.
    return taken.owned() if is_here(value) else taken


Wait = Callable[[], Taken]


def later(name: str, value: Any) -> tuple[Taken, Wait | None]:
    """A copy of an array that is made now, or by a device while the caller goes on.

    In the second case there are no elements yet, and what is returned with it waits for them.
    Raises :class:`CaptureError` as :func:`take` does."""
    if is_here(value):
        return copied(name, value), None
    return _from_cuda(name, value)


def without_elements(taken: Taken) -> Taken:
    """Dtype, shape and layout alone."""
    tensor = taken.tensor
    return Taken(
        Tensor(tensor.dtype, tensor.shape, _NO_BYTES, tensor.layout), taken.view, taken.place
    )


def sketch(name: str, value: Any) -> Taken:
    """Dtype and shape of an array that is traced and has no elements yet."""
    empty = take(name, np.empty(0, value.dtype))
    return replace(empty, tensor=replace(empty.tensor, shape=tuple(value.shape)))


def _from_cuda(name: str, value: Any) -> tuple[Taken, Wait]:
    torch: Any = sys.modules["torch"]
    value = value.detach()
    # A copy on the device, which the training cannot change; a second stream brings it over.
    copy = value.clone(memory_format=torch.contiguous_format)
    stream = torch.cuda.Stream(value.device)
    stream.wait_stream(torch.cuda.current_stream(value.device))
    with torch.cuda.stream(stream):
        target = _pinned(torch, copy)
        target.copy_(copy, non_blocking=True)
        copy.record_stream(stream)
        done = stream.record_event()
    empty = take(name, torch.empty(0, dtype=value.dtype, device="cpu"))
    known = replace(
        empty, tensor=replace(empty.tensor, shape=tuple(value.shape), layout=_layout(value))
    )

    def wait() -> Taken:
        done.synchronize()
        return replace(known, tensor=replace(known.tensor, data=take(name, target).tensor.data))

    return known, wait


def _pinned(torch: Any, like: Any) -> Any:
    """Memory of the host that a device copies to by itself; whatever the default device of the training."""
    pinned = torch.cuda.is_available()
    return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=pinned)


def _layout(value: Any) -> tensors.Layout | None:
    """The layout of a tensor of PyTorch, as :func:`gradreplay.tensors.take` tells it."""
    shape, strides, offset = tuple(value.shape), tuple(value.stride()), value.storage_offset()
    storage = value.untyped_storage().nbytes() // value.element_size() - offset
    if (
        not shape
        or 0 in shape
        or (value.is_contiguous() and not offset and storage == value.numel())
    ):
        return None
    return tensors.Layout(strides, storage, offset)
