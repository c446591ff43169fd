"""Writes one call as one fixture: its inputs first, then what flows into it, then what it gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..tensors import Tensor
from . import disk, draft
from .fixture import EXPECTED, INPUTS, UNCOMMITTED, Folder
from .host import Taken
from .kept import InMemory, Kept, OnDisk
from .provenance import Fact, uncommitted
from .record import Record
from .staged import Staged


class Writer:
    """The fixture of one call."""

    def __init__(
        self, record: Record, base: Path, path: Path, facts: Mapping[str, Fact], part: bool = False
    ) -> None:
        self.record = record
        self.base = base
        # A part has no outputs of its own: those of the whole need not be made of them.
        self._part = part
        name = record.function.target.expression
        text = f"a call of {name} in step {facts['step']}"
        self.folder = Folder(path, text, facts)
        # Whether its inputs are on the disk, and nothing has gone wrong since.
        self.written = False
        self._upstream: set[str] = set()

    def write_inputs(self) -> None:
        """Puts the inputs on the disk; from then on the fixture can be replayed.

        Raises :class:`CaptureError` or :class:`OSError` if it cannot."""
        self.folder.begin()
        # Parts of one fixture each have states of their own.
        random = {} if self._part else self.record.random
        self._add(INPUTS, self.record.inputs, random)
        diff = uncommitted() if self.folder.facts.get("dirty") and not self._part else b""
        if diff:
            self.folder.attach(UNCOMMITTED, [diff])
        self._publish()
        self.written = True

    def kept_inputs(self) -> Kept:
        """The inputs as they were before the call: on the disk, or in memory."""
        inputs = _tensors(self.record.inputs)
        return OnDisk(self.folder.path / INPUTS, inputs) if self.written else InMemory(inputs)

    def write_upstream(self) -> None:
        """Puts the upstream gradients that have come on the disk, before anything is made of them."""
        for output, taken in self.record.upstream.items():
            if output in self._upstream or not self.written:
                continue
            self._upstream.add(output)
            name = self.record.upstream_names[output]
            self._add(f"{name}.safetensors", {name: taken})
            self._publish()

    def finish(self) -> None:
        """Writes outputs and gradients, where the inputs are on the disk."""
        if not self.written:
            return
        self.write_upstream()
        self._publish()
        expected = self.record.expected()
        if expected and not self._part:
            self._expect(expected)

    def stage(self) -> None:
        """Has outputs written as they come, since the step is wanted whatever becomes of it."""
        if not self._part:
            self.record.staged = Staged(self.folder.path / EXPECTED, len(self.record.inputs))

    def _expect(self, expected: Mapping[str, Taken]) -> None:
        staged = self.record.staged or Staged(self.folder.path / EXPECTED, len(expected))
        self.folder.check_own()
        places = {name: one.place or staged.add(one.tensor) for name, one in expected.items()}
        staged.finish(_tensors(expected), places, _metadata(expected))
        disk.sync_folder(self.folder.path)

    def write_whole(self) -> None:
        """Writes the whole call at once."""
        self.write_inputs()
        self.finish()

    def discard(self) -> None:
        """Deletes the fixture, as far as it was written."""
        if self.record.staged is not None:
            self.record.staged.discard()
        if self.written:
            self.folder.discard()

    def _add(
        self, name: str, taken: Mapping[str, Taken], more: Mapping[str, str] | None = None
    ) -> None:
        self.folder.add(name, _tensors(taken), {**_metadata(taken), **(more or {})})

    def _publish(self) -> None:
        self.folder.publish(harness_of(self.record, self.base))


def harness_of(record: Record, base: Path) -> Path:
    """The harness that a call fits: the user's, or one that is drafted in `base`."""
    function = record.function
    return function.harness or draft.place(base, function.name, record.plan())


def _tensors(taken: Mapping[str, Taken]) -> dict[str, Tensor]:
    return {name: one.tensor for name, one in taken.items()}


def _metadata(taken: Mapping[str, Taken]) -> dict[str, str]:
    return {key: value for name, one in taken.items() for key, value in one.metadata(name).items()}
