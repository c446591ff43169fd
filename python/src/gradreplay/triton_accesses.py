"""Races between the programs of a grid, found in Triton's interpreter.

The interpreter runs the programs of a launch one after the other. Each access is kept by address, with its
program and line: two programs race on an element if one of them writes it without an atomic and nothing
orders the two. Atomics order what came before a release, and after the acquire that reads it: locks and
counters of a grid are made so. Launches are in the order of their stream.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import triton_interpreter
from .faults import Place
from .patches import replaced
from .tensors import is_torch

Array = npt.NDArray[Any]
Kind = Literal["race", "same_value"]

# Findings that are told, one for each pair of places.
_MOST_FINDINGS = 64
_PAGE = 12
_READ, _WRITE, _ATOMIC = range(3)
# What an access can race with.
_AGAINST = {_READ: (_WRITE, _ATOMIC), _WRITE: (_READ, _WRITE, _ATOMIC), _ATOMIC: (_READ, _WRITE)}
_OWN = os.path.dirname(os.path.realpath(__file__)) + os.sep


@dataclass(frozen=True)
class _Spot:
    """Who touches memory, where in the sources, and how."""

    way: int
    site: str
    kernel: str
    block: tuple[int, int, int]

    def as_json(self) -> dict[str, Any]:
        return {
            "writes": self.way != _READ,
            "atomic": self.way == _ATOMIC,
            "site": self.site,
            "name": self.kernel,
            "block": list(self.block),
        }


@dataclass
class _Finding:
    kind: Kind
    first: _Spot
    second: _Spot
    address: int
    size: int
    # The launch's tensors, kept so that their memory is nobody else's.
    tensors: Mapping[str, Any]
    count: int = 0


@dataclass
class Recorder:
    """The accesses of a replay."""

    place: Place
    launches: int = 0
    findings: dict[tuple[Any, ...], _Finding] = field(default_factory=dict)
    left_out: int = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records for the length of a block; Triton may be imported in it."""
        with ExitStack() as changes:
            if triton_interpreter.is_used():
                triton_interpreter.when_loaded(lambda module: self._watch(module, changes))
            yield

    def as_json(self, inputs: Mapping[str, Any], outputs: object) -> dict[str, Any]:
        """What the answer says of accesses, in terms of the harness's tensors."""
        if self.launches == 0:
            reason = "no Triton kernel ran in its interpreter, which alone shows accesses"
            return {"unchecked": reason}
        known = {**inputs, **(outputs if isinstance(outputs, Mapping) else {})}
        known = {name: array for name, array in known.items() if is_torch(array)}
        findings = [_told(finding, known) for finding in self.findings.values()]
        return {"findings": findings, "left_out": self.left_out}

    def _watch(self, interpreter: Any, changes: ExitStack) -> None:
        builder = interpreter.InterpreterBuilder
        launch = _Launch(self, interpreter)

        def load(known: Callable[..., Any]) -> Callable[..., Any]:
            def watched(own: Any, pointers: Any, mask: Any, *more: Any, **named: Any) -> Any:
                launch.touch(_READ, own, pointers, mask)
                return known(own, pointers, mask, *more, **named)

            return watched

        def store(known: Callable[..., Any]) -> Callable[..., Any]:
            def watched(own: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
                launch.touch(_WRITE, own, pointers, mask, value.data)
                return known(own, pointers, value, mask, *more)

            return watched

        def update(known: Callable[..., Any]) -> Callable[..., Any]:
            def watched(
                own: Any, op: Any, pointers: Any, value: Any, mask: Any, sem: Any, scope: Any
            ) -> Any:
                cells = launch.touch(_ATOMIC, own, pointers, mask)
                launch.order(cells, _orders(sem, scope))
                return known(own, op, pointers, value, mask, sem, scope)

            return watched

        def exchange(known: Callable[..., Any]) -> Callable[..., Any]:
            def watched(
                own: Any, pointers: Any, wanted: Any, value: Any, sem: Any, scope: Any
            ) -> Any:
                cells = launch.touch(_ATOMIC, own, pointers, None)
                found = known(own, pointers, wanted, value, sem, scope)
                acquires, releases = _orders(sem, scope)
                is_written = bool((found.data == wanted.data).all())
                launch.order(cells, (acquires, releases and is_written))
                return found

            return watched

        def call(known: Callable[..., Any]) -> Callable[..., Any]:
            def launched(executor: Any, *args: Any, **named: Any) -> Any:
                self.launches += 1
                launch.begin(executor, args, named)
                return known(executor, *args, **named)

            return launched

        for target, name, change in (
            (builder, "create_masked_load", load),
            (builder, "create_masked_store", store),
            (builder, "create_atomic_rmw", update),
            (builder, "create_atomic_cas", exchange),
            (interpreter.GridExecutor, "__call__", call),
        ):
            changes.enter_context(replaced(target, name, change(getattr(target, name))))


def _orders(semantics: Any, scope: Any) -> tuple[bool, bool]:
    """Whether an atomic acquires, and whether it releases, between programs."""
    name = str(semantics).rpartition(".")[2]
    if str(scope).rpartition(".")[2] == "CTA":
        return False, False
    return name in ("ACQUIRE", "ACQUIRE_RELEASE"), name in ("RELEASE", "ACQUIRE_RELEASE")


class _Launch:
    """The memory that one launch touches, as cells of its narrowest access."""

    def __init__(self, recorder: Recorder, interpreter: Any) -> None:
        self._recorder, self._interpreter = recorder, interpreter
        package = os.path.dirname(sys.modules["triton"].__file__ or "") + os.sep
        self._foreign = (package, os.path.realpath(package) + os.sep, _OWN)
        self._sites: dict[tuple[str, int], str] = {}

    def begin(self, executor: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """A launch begins: what came before is in order."""
        given = {**dict(zip(executor.arg_names, args, strict=False)), **named}
        self._kernel = executor.fn.__name__
        self._tensors = {name: _base(value) for name, value in given.items()}
        self._tensors = {name: value for name, value in self._tensors.items() if is_torch(value)}
        self._pages: dict[int, int] = {}
        self._cell = 0
        # By way, the first and the last access to each cell, by number; 0: none.
        self._first = [np.zeros(0, np.int32) for _ in _AGAINST]
        self._last = [np.zeros(0, np.int32) for _ in _AGAINST]
        self._released = np.zeros(0, np.int32)
        self._spots: list[_Spot | None] = [None]
        self._programs = np.full(1024, -1, np.int32)
        # What each part of a program is behind, and the part of each access.
        self._behind: list[tuple[int, ...]] = [()]
        self._parts = [0]
        self._program, self._part = -1, 0

    # Accesses

    def touch(
        self, way: int, builder: Any, pointers: Any, mask: Any, value: Array | None = None
    ) -> Array:
        """Holds an access against those before it, and keeps it; returns its cells."""
        addresses = np.atleast_1d(pointers.data)
        if mask is not None:
            addresses = addresses[np.broadcast_to(mask.data, addresses.shape)]
        addresses = addresses.reshape(-1)
        element = pointers.get_element_ty()
        size = max(1, element.primitive_bitwidth // 8)
        cells = self._cells(addresses, size)
        spot = self._spot(way, builder)
        number = self._number(spot)
        if value is not None:
            lanes = np.broadcast_to(value, np.shape(pointers.data)).reshape(-1)
            if mask is not None:
                lanes = lanes[np.broadcast_to(mask.data, np.shape(pointers.data)).reshape(-1)]
            value = lanes
            self._hold_lanes(spot, addresses, size, value)
        for other in _AGAINST[way]:
            self._hold(spot, other, cells, addresses, size, value)
        kept = self._first[way]
        first = cells[kept[cells] == 0]
        kept[first] = number
        self._last[way][cells] = number
        return cells

    def _hold(
        self, spot: _Spot, way: int, cells: Array, addresses: Array, size: int, value: Array | None
    ) -> None:
        is_found = np.zeros(len(addresses), bool)
        # Without an order between programs the first access to a cell is one of another program if any is.
        for kept in (self._first[way], self._last[way]):
            before = kept[cells]
            is_other = (before > 0) & (self._programs[before] != self._program)
            is_other &= ~is_found[:, None]
            for number in np.unique(before[is_other]):
                earlier = self._spots[number]
                if earlier is None or self._is_behind(number):
                    continue
                races = (is_other & (before == number)).any(axis=1)
                is_found |= races
                if way == _WRITE and value is not None:
                    keeps = races & self._keeps(addresses, value)
                    self._find("same_value", earlier, spot, addresses[keeps], size)
                    races &= ~keeps
                self._find("race", earlier, spot, addresses[races], size)

    def _hold_lanes(self, spot: _Spot, addresses: Array, size: int, value: Array) -> None:
        """Lanes of one store with one address: the last to come stays, whichever it is."""
        order = np.argsort(addresses, kind="stable")
        shared = addresses[order][1:] == addresses[order][:-1]
        if not shared.any():
            return
        same = _bits(value)[order][1:] == _bits(value)[order][:-1]
        self._find("same_value", spot, spot, addresses[order][1:][shared & same], size)
        self._find("race", spot, spot, addresses[order][1:][shared & ~same], size)

    def _keeps(self, addresses: Array, value: Array) -> Array:
        """Where memory holds what is about to be written."""
        everywhere = np.ones(addresses.shape, bool)
        load = importlib.import_module("triton._C.libtriton").interpreter.load
        held = load(addresses, everywhere, np.zeros_like(value), value.dtype)
        return np.asarray(_bits(held) == _bits(value))

    def _find(self, kind: Kind, first: _Spot, second: _Spot, addresses: Array, size: int) -> None:
        if len(addresses) == 0:
            return
        found = self._recorder.findings
        pair = (first.way, first.site, second.way, second.site)
        key = (kind, self._kernel, *pair)
        if key not in found:
            if len(found) >= _MOST_FINDINGS:
                self._recorder.left_out += 1
                return
            found[key] = _Finding(kind, first, second, int(addresses[0]), size, self._tensors)
        found[key].count += len(addresses)

    # Order

    def order(self, cells: Array, ways: tuple[bool, bool]) -> None:
        """An atomic that acquires, releases or both."""
        acquires, releases = ways
        if acquires:
            published = [int(part) for part in np.unique(self._released[cells]) if part]
            if published:
                self._begin_part(self._part, *published)
        if releases:
            self._released[cells] = self._part
            self._begin_part(self._part)

    def _begin_part(self, *behind: int) -> None:
        self._behind.append(behind)
        self._part = len(self._behind) - 1
        self._seen: set[int] | None = None

    def _is_behind(self, number: int) -> bool:
        """Whether the program now is behind an access."""
        if len(self._behind[self._part]) == 0:
            return False
        if self._seen is None:
            self._seen, left = set(), [self._part]
            while left:
                part = left.pop()
                if part not in self._seen:
                    self._seen.add(part)
                    left.extend(self._behind[part])
        return self._parts[number] in self._seen

    # Places

    def _spot(self, way: int, builder: Any) -> _Spot:
        block = tuple(int(at) for at in builder.grid_idx)
        _, columns, layers = builder.grid_dim
        program = (block[0] * columns + block[1]) * layers + block[2]
        if program != self._program:
            self._program = program
            self._begin_part()
        return _Spot(way, self._site(), self._kernel, (block[0], block[1], block[2]))

    def _site(self) -> str:
        """The line of the revision's that touches memory: the innermost one outside of Triton."""
        frame = sys._getframe(3)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(self._foreign):
            frame = frame.f_back
        key = frame.f_code.co_filename, frame.f_lineno
        if key not in self._sites:
            self._sites[key] = f"{self._recorder.place.shown(key[0])}:{key[1]}"
        return self._sites[key]

    def _number(self, spot: _Spot) -> int:
        self._spots.append(spot)
        self._parts.append(self._part)
        number = len(self._spots) - 1
        if number >= len(self._programs):
            self._programs = np.concatenate([self._programs, np.full_like(self._programs, -1)])
        self._programs[number] = self._program
        return number

    # Cells

    def _cells(self, addresses: Array, size: int) -> Array:
        """The cells of elements, one row each."""
        if len(addresses) == 0:
            return np.zeros((0, 1), np.int64)
        odd = int(np.bitwise_or.reduce(addresses)) | size
        self._narrow(odd & -odd)
        inside = (addresses & np.uint64((1 << _PAGE) - 1)).astype(np.int64) // self._cell
        pages, which = np.unique(addresses >> np.uint64(_PAGE), return_inverse=True)
        starts = np.array([self._start(int(page)) for page in pages], np.int64)
        cells: Array = (starts[which] + inside)[:, None] + np.arange(max(1, size // self._cell))
        return cells

    def _narrow(self, width: int) -> None:
        """Makes cells no wider than that; what was kept of a cell holds for its parts."""
        width = min(width, 8)
        if self._cell == 0:
            self._cell = width
        elif width < self._cell:
            times = self._cell // width
            self._first = [np.repeat(kept, times) for kept in self._first]
            self._last = [np.repeat(kept, times) for kept in self._last]
            self._released = np.repeat(self._released, times)
            self._cell = width

    def _start(self, page: int) -> int:
        slot = self._pages.setdefault(page, len(self._pages))
        per_page = (1 << _PAGE) // self._cell
        if (slot + 1) * per_page > len(self._released):
            more = np.zeros(max(16 * per_page, len(self._released)), np.int32)
            self._first = [np.concatenate([kept, more]) for kept in self._first]
            self._last = [np.concatenate([kept, more]) for kept in self._last]
            self._released = np.concatenate([self._released, more])
        return slot * per_page


def _bits(values: Array) -> Array:
    bits: Array = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    return bits


def _base(value: Any) -> Any:
    """The tensor of an argument: a descriptor or a wrapper has one."""
    return value if is_torch(value) else getattr(value, "base", None)


# Findings in terms of tensors


def _told(finding: _Finding, known: Mapping[str, Any]) -> dict[str, Any]:
    memory, offset, index = _memory(finding, known)
    return {
        "kind": finding.kind,
        "first": finding.first.as_json(),
        "second": finding.second.as_json(),
        "memory": memory,
        "offset": offset,
        "index": index,
        "bytes": finding.size,
        "count": finding.count,
    }


def _memory(finding: _Finding, known: Mapping[str, Any]) -> tuple[str, int, list[int] | None]:
    """The tensor of the harness, or the kernel's argument, that an address lies in."""
    touched = {
        name: tensor
        for name, tensor in finding.tensors.items()
        if _start(tensor) <= finding.address < _start(tensor) + tensor.untyped_storage().nbytes()
    }
    for own, tensor in touched.items():
        for name, other in known.items():
            if _start(other) == _start(tensor):
                return name, *_element(finding.address, other)
        return f"`{own}` of {finding.first.kernel}", *_element(finding.address, tensor)
    return "memory of no argument", 0, None


def _start(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _element(address: int, tensor: Any) -> tuple[int, list[int] | None]:
    """The byte of a tensor at an address, and its element there."""
    offset = address - int(tensor.data_ptr())
    left = offset // tensor.element_size()
    index = [0] * tensor.dim()
    axes = [axis for axis in range(tensor.dim()) if tensor.stride(axis) > 0]
    for axis in sorted(axes, key=lambda axis: -tensor.stride(axis)):
        index[axis], left = divmod(left, tensor.stride(axis))
    fits = all(at < size for at, size in zip(index, tensor.shape, strict=True))
    is_inside = offset >= 0 and left == 0 and fits and math.prod(tensor.shape) > 0
    return offset, index if is_inside else None
