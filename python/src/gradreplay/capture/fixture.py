"""A fixture's folder, written so that it is whole whenever `fixture.toml` is there.

A fixture appears with all its inputs, or not at all, and of several processes that write it one
succeeds; every later file has its name once it is on the disk. Only who made the fixture adds to it or
deletes it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import tensors
from . import disk
from .draft import text
from .errors import CaptureError
from .provenance import Fact

MANIFEST = "fixture.toml"
INPUTS = "inputs.safetensors"
EXPECTED = "expected.safetensors"
UNCOMMITTED = "uncommitted.diff"
# The file that makes a folder of fixtures a step.
STEP = "step.toml"


@dataclass(frozen=True)
class Entry:
    """A `[[files]]` of a fixture."""

    path: str
    blake3: str | None = None
    axis: str | None = None
    order: int | None = None
    # The tensors that count, by the harness's names; all where it is `None`.
    names: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Manifest:
    """The content of a `fixture.toml`."""

    # Relative to the fixture.
    harness: str
    description: str
    facts: Mapping[str, Fact]
    metrics: Mapping[str, float]
    entries: Sequence[Entry]
    scalars: Mapping[str, int] = field(default_factory=dict)
    # The file of captured outputs, if it is not `expected.safetensors`.
    captured: Entry | None = None

    def text(self) -> str:
        """The text of the file."""
        lines = [f"harness = {text(self.harness)}", f"description = {text(self.description)}"]
        lines += ["", "[provenance]", *_facts(self.facts)]
        lines += _table("metrics", {name: repr(value) for name, value in self.metrics.items()})
        lines += _table("scalars", {name: str(value) for name, value in self.scalars.items()})
        if self.captured is not None:
            lines += ["", "[captured]", *_entry(self.captured)]
        for entry in self.entries:
            lines += ["", "[[files]]", *_entry(entry)]
        return "\n".join(lines) + "\n"


def _table(name: str, values: Mapping[str, str]) -> list[str]:
    lines = [f"{text(key)} = {value}" for key, value in values.items()]
    return ["", f"[{name}]", *lines] if lines else []


def _entry(entry: Entry) -> list[str]:
    lines = [f"path = {text(entry.path)}"]
    if entry.blake3 is not None:
        lines.append(f"blake3 = {text(entry.blake3)}")
    if entry.axis is not None:
        lines += [f"axis = {text(entry.axis)}", f"order = {entry.order}"]
    if entry.names is not None:
        names = ", ".join(f"{text(name)} = {text(stored)}" for name, stored in entry.names.items())
        lines.append(f"names = {{ {names} }}")
    return lines


@dataclass
class Folder:
    """One fixture that is being written."""

    path: Path
    description: str
    facts: Mapping[str, Fact]
    entries: list[Entry] = field(default_factory=list)
    # What the training told of the step; known when it has ended.
    metrics: Mapping[str, float] = field(default_factory=dict)
    # Files of the fixture that are not written yet: in pieces, or where they lie.
    _added: dict[str, Iterable[Any] | Path] = field(default_factory=dict)
    _attached: list[str] = field(default_factory=list)
    # The harness and the metrics that `fixture.toml` names.
    _published: tuple[Path, Mapping[str, float]] | None = None
    # Folders with names that are not on the disk yet.
    _unsynced: list[Path] = field(default_factory=list)
    # The folder's device and number, once it is there.
    _identity: tuple[int, int] | None = None

    def begin(self) -> None:
        """Makes the folders above.

        Raises :class:`CaptureError` if a fixture is there, :class:`OSError` if they cannot be made."""
        if (self.path / MANIFEST).exists():
            raise self._taken()
        self._unsynced = make_folder(self.path.parent)

    def _taken(self) -> CaptureError:
        return CaptureError(
            f"{self.path} holds a fixture already, which stays as it is",
            "delete it, or name the steps of this run differently",
        )

    def check_own(self) -> None:
        """Raises :class:`CaptureError` if the fixture that this made is no longer there."""
        if not self._is_own():
            raise CaptureError(f"{self.path} was removed or replaced while it was captured")

    def _is_own(self) -> bool:
        try:
            return self._identity == _identity(self.path)
        except OSError:
            return False

    def link(self, source: Path, entry: Entry) -> None:
        """Makes a file that lies elsewhere part of the fixture, as :meth:`add`."""
        self._added[entry.path] = source
        self.entries.append(entry)

    def add(
        self, name: str, content: Mapping[str, tensors.Tensor], metadata: Mapping[str, str]
    ) -> None:
        """Makes a file of inputs part of the fixture; it is written by the next :meth:`publish`."""
        self._added[name] = self._noted(name, tensors.pieces(content, metadata))

    def attach(self, name: str, pieces: Iterable[Any]) -> None:
        """Puts a file beside those of inputs with the next :meth:`publish`."""
        self._added[name] = pieces
        self._attached.append(name)

    def _noted(self, name: str, pieces: Iterable[Any]) -> Iterator[Any]:
        """Passes the pieces of a file on, and then notes it with its hash."""
        make = _hasher()
        hasher: Any = make() if make is not None else None
        for piece in pieces:
            if hasher is not None:
                hasher.update(piece)
            yield piece
        self.entries.append(Entry(name, hasher and str(hasher.hexdigest())))

    def publish(self, harness: Path) -> None:
        """Puts the files added so far and `fixture.toml` on the disk, unless they are there already.

        Raises :class:`TensorFileError` or :class:`OSError` if it cannot; then they are no part of it."""
        told = harness, self.metrics
        if told == self._published and not self._added:
            return
        known = list(self.entries)
        files, self._added = {**self._added, MANIFEST: self._manifest(harness)}, {}
        try:
            self._put(files)
        except BaseException:
            self.entries = known
            raise
        self._unsynced, self._published = [], told

    def _put(self, files: dict[str, Any]) -> None:
        if self._identity is not None:
            self.check_own()
            disk.put(self.path, files)
            return
        try:
            disk.put_folder(self.path, files, self._unsynced)
        except disk.TakenError as error:
            raise self._taken() from error
        self._identity = _identity(self.path)

    def _manifest(self, harness: Path) -> Iterator[bytes]:
        """The text of `fixture.toml`, made when the other files are written."""
        place = way(self.path, harness)
        manifest = Manifest(place, self.description, self.facts, self.metrics, self.entries)
        yield manifest.text().encode()

    def discard(self) -> None:
        """Deletes the fixture, which is none from the first moment on, and nothing else in its folder."""
        if not self._is_own():
            return
        # Others must not take the folder while this deletes files in it.
        with disk.locked(os.path.dirname(os.path.realpath(self.path))):
            tensors = (entry.path for entry in self.entries)
            for name in (MANIFEST, EXPECTED, *self._attached, *tensors):
                (self.path / name).unlink(missing_ok=True)
            # What others have put into the folder stays.
            with contextlib.suppress(OSError):
                self.path.rmdir()


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _key(name: str) -> str:
    """A key of a table: `numpy`, or `"ruamel.yaml"`, whose dot would divide it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def _facts(facts: Mapping[str, Fact]) -> list[str]:
    """The lines of `[provenance]`, tables as one line each."""
    lines = []
    for key, fact in facts.items():
        if isinstance(fact, Mapping):
            entries = ", ".join(f"{_key(name)} = {text(value)}" for name, value in fact.items())
            lines.append(f"{key} = {{ {entries} }}" if entries else f"{key} = {{}}")
        elif isinstance(fact, bool):
            lines.append(f"{key} = {str(fact).lower()}")
        else:
            lines.append(f"{key} = {fact if isinstance(fact, int) else text(fact)}")
    return lines


def make_folder(path: Path) -> list[Path]:
    """Makes a folder and those above it; the folders returned hold names that are not on the disk yet.

    That is left for later, as it costs little once the files in it are synchronised."""
    try:
        os.mkdir(path)
        return [path.parent]
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is no folder") from None
        return []
    except FileNotFoundError:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        return [folder.parent for folder in missing]


def way(start: Path, target: Path) -> str:
    """The relative path from the folder `start` to `target`, whatever symbolic links there are."""
    if start.is_absolute() != target.is_absolute():
        start, target = Path.cwd() / start, Path.cwd() / target
    common = 0
    for one, other in zip(start.parts, target.parts, strict=False):
        if one != other:
            break
        common += 1
    up, down = start.parts[common:], target.parts[common:]
    folders = [os.path.join(*start.parts[: common + depth]) for depth in range(1, len(up) + 1)]
    # `..` leads out of a folder the way that leads into it, unless a link does.
    if ".." not in up + down and not any(os.path.islink(folder) for folder in folders):
        return os.path.join(*[".."] * len(up), *down)
    return os.path.relpath(target.resolve(), start.resolve())


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
