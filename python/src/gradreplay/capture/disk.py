"""Files that are on the disk before they have their names, with few waits for the disk.

A synchronisation waits for the disk however little there is to write; several at a time wait once.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tensors import TensorFileError


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
    beside = {name: os.path.join(home, f".{name}.{mark}.part") for name in files}
    name = ""
    try:
        with contextlib.ExitStack() as opened:
            descriptors = []
            for name, pieces in files.items():
                file = opened.enter_context(open(beside[name], "xb"))
                for piece in pieces:
                    file.write(piece)
                file.flush()
                descriptors.append(file.fileno())
            descriptors += [opened.enter_context(_opened(path)) for path in above]
            _sync(descriptors)
        for name, path in beside.items():
            os.replace(path, os.path.join(home, name))
    except BaseException as error:
        for path in beside.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        if isinstance(error, OSError):
            text = f"cannot write {folder / name}: {error.strerror or error}"
            raise TensorFileError(text) from error
        raise
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync(descriptors: Sequence[int]) -> None:
    """Synchronises several files at a time.

    Raises the error of the first that cannot be."""
    errors: dict[int, OSError] = {}

    def sync(descriptor: int, done: _thread.LockType) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            errors[descriptor] = error
        finally:
            done.release()

    waiting = []
    # The last one here, the others in threads without what `threading` adds, which costs more than they.
    for number, descriptor in enumerate(descriptors, start=1):
        done = _thread.allocate_lock()
        done.acquire()
        waiting.append(done)
        try:
            if number < len(descriptors):
                _thread.start_new_thread(sync, (descriptor, done))
                continue
        except RuntimeError:
            # An interpreter that ends starts none.
            pass
        sync(descriptor, done)
    for done in waiting:
        done.acquire()
    for descriptor in descriptors:
        if descriptor in errors:
            raise errors[descriptor]
