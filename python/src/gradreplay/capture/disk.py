"""Files that are on the disk before they have their names, with few waits for the disk.

A synchronisation waits for the disk however little there is to write; what was begun to be written before it
goes along.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tensors import TensorFileError

# How a file that is not there yet is opened.
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def put(folder: Path, files: Mapping[str, Iterable[Any]], above: Iterable[Path] = ()) -> None:
    """Puts files, each given in pieces, into `folder`, and the names in the folders `above` on the disk.

    A file has its name once the bytes of all are on the disk, and the names come in the order of `files`: a
    name of them stands for a whole file, and the last for all. What a file is may be known only after
    those before it are written: pieces are asked for when their turn has come.

    Raises :class:`TensorFileError` if a file cannot be written, and then none has its name;
    :class:`OSError` if a folder cannot be synchronised."""
    # Another process may write a file of this name in this moment.
    mark = secrets.token_hex(4)
    home = os.fspath(folder)
    beside = {name: f"{home}/.{name}.{mark}.part" for name in files}
    name = ""
    try:
        with contextlib.ExitStack() as stack:
            descriptors = []
            for name, pieces in files.items():
                descriptors.append(stack.enter_context(opened(beside[name], NEW)))
                write(descriptors[-1], pieces)
            descriptors += [stack.enter_context(opened(path, _FOLDER)) for path in above]
            _sync(descriptors)
        for name, path in beside.items():
            os.replace(path, f"{home}/{name}")
    except BaseException as error:
        for path in beside.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        if isinstance(error, OSError):
            text = f"cannot write {folder / name}: {error.strerror or error}"
            raise TensorFileError(text) from error
        raise
    sync_folder(folder)


@contextlib.contextmanager
def opened(path: str | Path, flags: int) -> Iterator[int]:
    """The descriptor of a file or folder, which is closed in the end."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(descriptor: int, pieces: Iterable[Any]) -> None:
    """Writes pieces of bytes where a file is at the moment, without a copy of any."""
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    with opened(folder, _FOLDER) as descriptor:
        os.fsync(descriptor)


def _sync(descriptors: Sequence[int]) -> None:
    """Synchronises files and folders of one moment, the largest first.

    Raises the error of the first that cannot be."""
    # The kernel begins to write what this says is not needed again. The first synchronisation takes it
    # along, and the others find nothing left to wait for. Threads would wait as long, and cost more than
    # that where a training keeps the processor's cores busy.
    for descriptor in descriptors[1:]:
        with contextlib.suppress(AttributeError, OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    for descriptor in descriptors:
        os.fsync(descriptor)
