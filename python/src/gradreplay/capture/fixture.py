"""A fixture's folder, written so that it is whole whenever `fixture.toml` is there.

Every file is written beside its place, put on the disk, and then renamed; `fixture.toml` comes after the
files that it names. A process that dies leaves a fixture of all inputs, or none.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import tensors
from .draft import replace, sync_folder, text
from .errors import CaptureError
from .provenance import Fact

MANIFEST = "fixture.toml"
INPUTS = "inputs.safetensors"
EXPECTED = "expected.safetensors"


@dataclass(frozen=True)
class Entry:
    """A `[[files]]` of a fixture."""

    path: str
    blake3: str | None = None
    axis: str | None = None
    order: int | None = None


@dataclass
class Folder:
    """One fixture that is being written."""

    path: Path
    description: str
    facts: Mapping[str, Fact]
    entries: list[Entry] = field(default_factory=list)
    # The harness and the number of files that `fixture.toml` names.
    _published: tuple[Path, int] | None = None
    # Folders with names that are not on the disk yet.
    _unsynced: list[Path] = field(default_factory=list)

    def begin(self) -> None:
        """Makes the folder.

        Raises :class:`CaptureError` if a fixture is there, :class:`OSError` if it cannot be made."""
        if (self.path / MANIFEST).exists():
            raise CaptureError(
                f"{self.path} holds a fixture already, which stays as it is",
                "delete it, or name the steps of this run differently",
            )
        if not self.path.is_dir():
            self._unsynced = make_folder(self.path)
            return
        # What a process left that died before its inputs were whole.
        for left in (self.path / INPUTS, self.path / EXPECTED, *self.path.glob(".*.part")):
            left.unlink(missing_ok=True)

    def add(
        self, name: str, content: Mapping[str, tensors.Tensor], metadata: Mapping[str, str]
    ) -> None:
        """Writes a file of inputs, which is part of the fixture, and has its name, at the next
        :meth:`publish`."""
        make = _hasher()
        hasher: Any = make() if make is not None else None
        told = hasher.update if hasher is not None else None
        tensors.write(self.path / name, content, metadata, sync=True, told=told)
        self.entries.append(Entry(name, hasher and str(hasher.hexdigest())))

    def publish(self, harness: Path) -> None:
        """Writes `fixture.toml`, with the files added so far, unless it says so already."""
        if (harness, len(self.entries)) == self._published:
            return
        relative = os.path.relpath(harness.resolve(), self.path.resolve())
        lines = [
            f"harness = {text(relative)}",
            f"description = {text(self.description)}",
            "",
            "[provenance]",
        ]
        lines += _facts(self.facts)
        for entry in self.entries:
            lines += ["", "[[files]]", f"path = {text(entry.path)}"]
            if entry.blake3 is not None:
                lines.append(f"blake3 = {text(entry.blake3)}")
            if entry.axis is not None:
                lines += [f"axis = {text(entry.axis)}", f"order = {entry.order}"]
        replace(self.path / MANIFEST, ("\n".join(lines) + "\n").encode())
        while self._unsynced:
            sync_folder(self._unsynced.pop())
        self._published = harness, len(self.entries)

    def discard(self) -> None:
        """Deletes the fixture, which is none from the first moment on, and nothing else in its folder."""
        for name in (MANIFEST, EXPECTED, *(entry.path for entry in self.entries)):
            (self.path / name).unlink(missing_ok=True)
        # What others have put into the folder stays.
        with contextlib.suppress(OSError):
            self.path.rmdir()


def _facts(facts: Mapping[str, Fact]) -> list[str]:
    """The lines of `[provenance]`, tables as one line each."""
    lines = []
    for key, fact in facts.items():
        if isinstance(fact, Mapping):
            entries = ", ".join(f"{name} = {text(value)}" for name, value in fact.items())
            lines.append(f"{key} = {{ {entries} }}")
        elif isinstance(fact, bool):
            lines.append(f"{key} = {str(fact).lower()}")
        else:
            lines.append(f"{key} = {fact if isinstance(fact, int) else text(fact)}")
    return lines


def make_folder(path: Path) -> list[Path]:
    """Makes a folder and those above it; the folders returned hold names that are not on the disk yet.

    That is left for later, as it costs little once the files in it are synchronised."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return [folder.parent for folder in missing]


def blake3(path: Path) -> str | None:
    """The hash of a file, where the package blake3 is installed."""
    make = _hasher()
    if make is None:
        return None
    hasher: Any = make()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 22):
            hasher.update(chunk)
    return str(hasher.hexdigest())


@functools.cache
def _hasher() -> Callable[[], Any] | None:
    try:
        module: Any = importlib.import_module("blake3")
    except ImportError:
        return None
    make: Callable[[], Any] = module.blake3
    return make
