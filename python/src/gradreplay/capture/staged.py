"""A safetensors file whose tensors come one after the other: elements first, the header at the end.

What a function returns goes from the framework's memory into the file's pages, without a copy in between. The
header has room before the elements; a longer one moves them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from .. import tensors
from ..tensors import Bytes, Tensor, TensorFileError
from . import disk
from .background import background
from .kept import file_holds

Place = tuple[int, int]

_BLOCK = 4096
# So many bytes are put on the disk together, while more are added.
_STRETCH = 1 << 25
# What one tensor takes of a header, by and large.
_ENTRY = 256


class Staged:
    """A file that is written beside its place, and renamed when it is whole.

    It is open only while something is written: a step may have more calls than a process may have files."""

    def __init__(self, path: Path, count: int) -> None:
        """The file at `path`, of about `count` tensors."""
        self.path = path
        self._beside = Path(disk.beside(os.fspath(path)))
        # A multiple of the elements' alignment.
        self._room = -(-(_ENTRY * (count + 2)) // _BLOCK) * _BLOCK
        self._end = 0
        self._begun = False
        # Whether elements are missing: the file is then never finished.
        self._broken = False
        # Elements up to here are on the disk, or on their way.
        self._sent = 0
        self._is_sending = False
        # Why some could not be put there.
        self._unsent: OSError | None = None

    def add(self, tensor: Tensor) -> Place:
        """Writes the elements of a tensor, and returns where they lie.

        Raises :class:`TensorFileError` if it cannot."""
        try:
            with disk.opened(self._beside, os.O_WRONLY if self._begun else disk.NEW) as file:
                self._begun = True
                os.lseek(file, self._room + self._end, os.SEEK_SET)
                disk.write(file, [tensor.data.data])
        except OSError as error:
            self._broken = True
            self.discard()
            raise self._failed(error) from error
        start, self._end = self._end, self._end + tensor.data.nbytes
        if self._end - self._sent >= _STRETCH and not self._is_sending:
            self._sent, self._is_sending = self._end, True
            background.submit(self._send, 0)
        return start, self._end

    def _send(self) -> None:
        """Puts the elements so far on the disk."""
        try:
            with disk.opened(self._beside, os.O_WRONLY) as file:
                os.fsync(file)
        except FileNotFoundError:
            # It was discarded.
            pass
        except OSError as error:
            # The system says so once.
            self._unsent = error
        finally:
            self._is_sending = False

    def holds(self, place: Place, data: Bytes) -> bool:
        """Whether the elements at a place are `data`."""
        start, end = place
        if end - start != data.size:
            return False
        with disk.opened(self._beside, os.O_RDONLY) as file:
            return file_holds(file, self._room + start, data)

    def close_gaps(self, places: Mapping[str, Place]) -> dict[str, Place]:
        """Moves elements to where others lie that are no longer wanted, and returns their places.

        Raises :class:`TensorFileError` if it cannot."""
        if self._broken:
            return dict(places)
        moved: dict[str, Place] = {}
        end = 0
        try:
            with disk.opened(self._beside, os.O_RDWR) as file:
                for name, (start, stop) in sorted(places.items(), key=lambda one: one[1]):
                    moved[name] = end, end + stop - start
                    self._move(file, start, stop, end)
                    end += stop - start
        except OSError as error:
            self._broken = True
            self.discard()
            raise self._failed(error) from error
        self._end = end
        return moved

    def _move(self, file: int, start: int, stop: int, to: int) -> None:
        while start < stop and start != to:
            piece = os.pread(file, min(_STRETCH, stop - start), self._room + start)
            os.lseek(file, self._room + to, os.SEEK_SET)
            disk.write(file, [piece])
            start, to = start + len(piece), to + len(piece)

    def finish(
        self,
        content: Mapping[str, Tensor],
        places: Mapping[str, Place],
        metadata: Mapping[str, str],
    ) -> None:
        """Names the tensors of which elements were added; then the file is on the disk, under its name.

        Raises :class:`TensorFileError` if it cannot."""
        if self._broken or not self._begun:
            return
        order = sorted(content, key=lambda name: places[name])
        header = tensors.header(
            {name: content[name] for name in order}, places, metadata, self._room
        )
        try:
            if self._unsent is not None:
                raise self._unsent
            if len(header) > self._room:
                self._make_room(len(header))
            with disk.opened(self._beside, os.O_WRONLY) as file:
                disk.write(file, [header])
                # A file ends where its tensors do, though the last may have no elements.
                os.ftruncate(file, len(header) + self._end)
                os.fsync(file)
            os.replace(self._beside, self.path)
        except OSError as error:
            self.discard()
            raise self._failed(error) from error

    def _make_room(self, room: int) -> None:
        """Moves the elements behind a longer header."""
        wide = self._beside.with_suffix(".wide.part")
        with open(self._beside, "rb") as source, open(wide, "wb") as target:
            source.seek(self._room)
            target.seek(room)
            shutil.copyfileobj(source, target, 1 << 24)
        os.replace(wide, self._beside)

    def _failed(self, error: OSError) -> TensorFileError:
        return TensorFileError(f"cannot write {self.path}: {error.strerror or error}")

    def discard(self) -> None:
        """Deletes what has been written."""
        if self._begun:
            self._beside.unlink(missing_ok=True)
