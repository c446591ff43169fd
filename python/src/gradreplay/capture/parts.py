"""Calls of one step, and of several processes, that are parts of one fixture along a size.

Each part is first a fixture of its own, in a folder `PATH.parts`, so that a part whose kernel crashes
can be replayed. When the step has ended in all processes the parts become shards of one fixture, and
`replay inspect` proves that they make up the whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import tensors
from ..tensors import Tensor
from . import disk, draft, provenance
from .errors import CaptureError
from .fixture import INPUTS, UNCOMMITTED, Entry, Folder, blake3
from .host import take
from .provenance import Fact
from .record import Function, Record
from .writer import Writer, harness_of


@dataclass(frozen=True)
class Part:
    """Where a part lies in the order of all."""

    index: int
    call: int

    @property
    def name(self) -> str:
        """The name of its folder, and then of its file."""
        return f"part{self.index}-call{self.call}"


class Parts:
    """The parts that this process has of one fixture."""

    def __init__(
        self, function: Function, base: Path, path: Path, facts: Mapping[str, Fact]
    ) -> None:
        assert function.axis is not None
        self.function = function
        self.axis: str = function.axis
        self.base = base
        self.path = path
        self.facts = facts
        # As of a fixture's folder.
        self.metrics: Mapping[str, float] = {}
        self._home = path.with_name(path.name + ".parts")
        self._writers: dict[Part, Writer] = {}

    def writer(self, record: Record, index: int) -> Writer:
        """The writer of the next part that the process or device `index` has.

        Raises :class:`CaptureError` if it cannot be a part of the same tensors as the others."""
        self._check(record)
        for name, taken in record.inputs.items():
            # Strides would be those of the part, and a fixture records those of the whole.
            packed = replace(taken.tensor, layout=None)
            record.inputs[name] = replace(taken, tensor=packed)
        calls = sum(1 for part in self._writers if part.index == index)
        part = Part(index, calls)
        writer = Writer(record, self.base, self._home / part.name, self.facts, part=True)
        self._writers[part] = writer
        return writer

    def _check(self, record: Record) -> None:
        mine = self._shapes(record)
        if not any(self.axis in shape for shape in mine.values()):
            raise CaptureError(
                f"no input of `{self.function.name}` has the size {self.axis}, along which its calls "
                "are parts",
                'name the sizes: shapes={"logits": ("tokens", "vocab")}',
            )
        for writer in self._writers.values():
            for name, shape in self._shapes(writer.record).items():
                if mine.get(name) != shape:
                    raise CaptureError(
                        f"`{name}` of `{self.function.name}` changes its shape between the calls of a "
                        f"step: {shape} and {mine.get(name)}",
                        f"parts may differ in {self.axis} only; without axis each call is a fixture",
                    )

    def _shapes(self, record: Record) -> dict[str, list[int | str]]:
        """The shapes of the inputs, with the axis by its name."""
        shapes: dict[str, list[int | str]] = {}
        for name, taken in record.inputs.items():
            found = taken.tensor.shape
            given = self.function.shapes.get(name)
            declared = draft.names_of(given, name) if given is not None else found
            shapes[name] = [
                size if size == self.axis else value
                for size, value in zip(declared, found, strict=False)
            ]
        return shapes

    def discard(self) -> None:
        """Deletes what is left of the parts."""
        shutil.rmtree(self._home, ignore_errors=True)

    def assemble(self, whole: Mapping[str, Any]) -> None:
        """Makes one fixture of all parts, if this process is the last to end the step.

        `whole` are tensors that the parts must make up, bit for bit."""
        mine = [part for part, writer in self._writers.items() if writer.written]
        if len(mine) < len(self._writers):
            raise CaptureError(
                f"{self.path} is left in parts, in {self._home}: one was not written"
            )
        if whole:
            content = {
                name: replace(take(name, value).tensor, layout=None)
                for name, value in whole.items()
            }
            disk.put(self._home, {"whole.safetensors": tensors.pieces(content, {})})
        listed = json.dumps(
            {"run": provenance.run(), "parts": [[part.index, part.call] for part in mine]}
        )
        disk.put(self._home, {f"rank{provenance.rank()}.json": [listed.encode()]})
        parts = self._all_parts()
        if parts is not None and self._is_mine():
            self._join(parts)

    def _all_parts(self) -> list[Part] | None:
        """The parts of all processes in their order; `None` while some are missing.

        Raises :class:`CaptureError` if they are of different runs."""
        found: list[Part] = []
        for rank in range(provenance.world()):
            try:
                listed = json.loads((self._home / f"rank{rank}.json").read_text())
            except FileNotFoundError:
                return None
            if listed["run"] != provenance.run():
                raise CaptureError(
                    f"{self.path} is left in parts, in {self._home}: they are of different runs",
                    "give each run a path of its own",
                )
            found += [Part(index, call) for index, call in listed["parts"]]
        return sorted(found, key=lambda part: (part.index, part.call))

    def _is_mine(self) -> bool:
        # Two processes may both see that all are there.
        try:
            (self._home / "joining").mkdir()
        except FileExistsError:
            return False
        return True

    def _join(self, parts: list[Part]) -> None:
        name = self.function.target.expression
        text = f"{len(parts)} calls of {name} in step {self.facts['step']}"
        folder = Folder(self.path, text, self.facts, metrics=self.metrics)
        diff = provenance.uncommitted()
        if diff:
            folder.attach(UNCOMMITTED, diff)
        folder.begin()
        for order, part in enumerate(parts):
            source = self._home / part.name / INPUTS
            folder.link(source, Entry(f"{part.name}.safetensors", blake3(source), self.axis, order))
        self._join_upstream(parts, folder)
        whole = self._home / "whole.safetensors"
        if whole.exists():
            folder.link(whole, Entry(whole.name, blake3(whole)))
        writer = next(iter(self._writers.values()))
        folder.publish(harness_of(writer.record, self.base))
        self.discard()

    def _join_upstream(self, parts: list[Part], folder: Folder) -> None:
        """Writes the upstream gradients whole: put together, or the one that all parts have."""
        found: dict[str, list[Tensor]] = {}
        for part in parts:
            for file in sorted((self._home / part.name).glob("*.safetensors")):
                if file.stem not in ("inputs", "expected"):
                    found.setdefault(file.stem, []).append(tensors.read(file)[file.stem])
        record = next(iter(self._writers.values())).record
        shapes = {given.name: given.shape for given in record.plan().upstream}
        content = {}
        for name, pieces in found.items():
            if len(pieces) < len(parts):
                raise CaptureError(
                    f"only {len(pieces)} of {len(parts)} parts of {self.path} have `{name}`"
                )
            content[name] = self._joined(name, shapes.get(name, ()), pieces)
        if content:
            folder.add("upstream.safetensors", content, {})

    def _joined(self, name: str, shape: draft.Shape, pieces: list[Tensor]) -> Tensor:
        if self.axis in shape:
            axis = shape.index(self.axis)
            bits = [piece.data.view(piece.dtype.bits).reshape(piece.shape) for piece in pieces]
            joined = np.concatenate(bits, axis)
            data = np.ascontiguousarray(joined).reshape(-1).view(np.uint8)
            return Tensor(pieces[0].dtype, joined.shape, data)
        if any(not np.array_equal(piece.data, pieces[0].data) for piece in pieces):
            raise CaptureError(
                f"`{name}` differs between the parts of {self.path}, which are left in {self._home}"
            )
        return replace(pieces[0], layout=None)
