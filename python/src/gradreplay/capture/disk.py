"""Files and folders that are on the disk before they have their names, with few waits for the disk.

A synchronisation waits for the disk however little there is to write; what was begun to be written before it
goes along. Of several processes that make one folder a single one succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tensors import TensorFileError

# How a file that is not there yet is opened.
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# So few files are synchronised without a thread to help, and by so many threads at most.
_SYNCED_BY_ONE = 8
_MOST_HELPERS = 3
# A file of so many bytes is begun to be put on the disk at once.
_LARGE = 1 << 16
# The names of files and folders that are not whole yet.
_PART = re.compile(r"\..*\.[0-9a-f]{16}\.part", re.DOTALL)

# Folders whose leftovers this process has deleted.
_swept: set[str] = set()


class TakenError(Exception):
    """The folder is somebody else's."""


def beside(path: str) -> str:
    """A name in the folder of `path` that nobody else has, for what becomes `path` once it is whole."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{secrets.token_hex(8)}.part")


def put_folder(
    path: Path, files: Mapping[str, Iterable[Any] | Path], above: Iterable[Path]
) -> None:
    """Puts a folder with these files, each given in pieces or as one to be linked, on the disk, and the
    names in the folders `above`.

    The folder appears with all of them; the last stands for all. What a process left that died is
    replaced, and files of other names in the folder stay.

    Raises :class:`TakenError` if the last is there, whoever has written it and when;
    :class:`TensorFileError` or :class:`OSError` if it cannot be written. Then nothing is left of it."""
    # The place of a symbolic link is the folder that it leads to.
    home = os.path.realpath(path)
    parent = os.path.dirname(home)
    name = ""
    with contextlib.ExitStack() as stack:
        try:
            with locked(parent) as is_locked:
                if is_locked:
                    _sweep(parent)
                made = beside(home)
                os.mkdir(made)
                stack.callback(shutil.rmtree, made, ignore_errors=True)
                # As long as it is locked its writer lives.
                stack.enter_context(locked(made))
            for name, pieces in files.items():
                place = f"{made}/{name}"
                if isinstance(pieces, Path):
                    _link(pieces, place)
                else:
                    _write_new(place, pieces)
            _sync([made, *(f"{made}/{name}" for name in files), *above])
            name = ""
            with locked(parent) as is_locked:
                _claim(made, home, list(files), is_locked)
        except OSError as error:
            text = f"cannot write {path / name}: {error.strerror or error}"
            raise TensorFileError(text) from error
    sync_folder(parent)


class Pending:
    """A folder of folders that is written beside its place, and renamed when it is whole."""

    def __init__(self, path: Path) -> None:
        """Begins the folder that becomes `path`, and makes those above it.

        Raises :class:`OSError` if it cannot be made."""
        # The place of a symbolic link is the folder that it leads to.
        self._home = os.path.realpath(path)
        parent = os.path.dirname(self._home)
        os.makedirs(parent, exist_ok=True)
        self.path = Path(beside(self._home))
        self._open = contextlib.ExitStack()
        with locked(parent) as is_locked:
            if is_locked:
                _sweep(parent)
            os.mkdir(self.path)
            # As long as it is locked its writer lives.
            self._open.enter_context(locked(self.path))

    def finish(self, files: Mapping[str, bytes]) -> None:
        """Adds files by their paths in the folder, and puts all of them on the disk, and the folder under its
        name. What it holds already is on the disk.

        Raises :class:`TakenError` if something is there, :class:`OSError` if it cannot be written."""
        home = os.fspath(self.path)
        folders = {home: None}
        places = [f"{home}/{name}" for name in files]
        for place, content in zip(places, files.values(), strict=True):
            folder = os.path.dirname(place)
            if folder not in folders:
                os.mkdir(folder)
                folders[folder] = None
            _write_new(place, [content])
        _sync([*places, *folders])
        try:
            os.replace(self.path, self._home)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise TakenError from error
            raise
        self._open.close()
        sync_folder(os.path.dirname(self._home))

    def discard(self) -> None:
        """Deletes what has been written."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._open.close()


def _claim(made: str, home: str, names: Sequence[str], is_locked: bool) -> None:
    """Renames the folder `made` to `home`. Into a folder that is there its files are moved, the last of
    `names` at the end, where a lock keeps others from doing the same.

    Raises :class:`TakenError` if the last of `names` is there."""
    try:
        # Only one that is empty is replaced.
        os.replace(made, home)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if not is_locked or os.path.lexists(f"{home}/{names[-1]}"):
        raise TakenError
    for left in os.listdir(home):
        if _PART.fullmatch(left):
            os.unlink(f"{home}/{left}")
    for name in names:
        os.replace(f"{made}/{name}", f"{home}/{name}")
    sync_folder(home)


def _sweep(parent: str) -> None:
    """Deletes the folders that processes left in `parent` which died while they wrote, once a process.

    The folder must be locked."""
    if parent in _swept:
        return
    _swept.add(parent)
    with os.scandir(parent) as entries:
        left = [
            entry.path
            for entry in entries
            if _PART.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    for path in left:
        with contextlib.suppress(OSError), opened(path, _FOLDER) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: str | Path) -> Iterator[bool]:
    """Keeps others from what they do with this lock of a folder.

    Tells whether the file system has such locks."""
    with opened(folder, _FOLDER) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            # A process that was forked meanwhile has the descriptor, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _link(source: Path, target: str) -> None:
    """Gives a file a second name; on file systems that cannot, a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def put(folder: Path, files: Mapping[str, Iterable[Any]], above: Iterable[Path] = ()) -> None:
    """Puts files, each given in pieces, into `folder`, and the names in the folders `above` on the disk.

    A file has its name once the bytes of all are on the disk, and the names come in the order of `files`: a
    name of them stands for a whole file, and the last for all. What a file is may be known only after
    those before it are written: pieces are asked for when their turn has come.

    Raises :class:`TensorFileError` if a file cannot be written, and then none has its name;
    :class:`OSError` if a folder cannot be synchronised."""
    # Another process may write a file of this name in this moment.
    home = os.fspath(folder)
    parts = {name: beside(f"{home}/{name}") for name in files}
    name = ""
    try:
        for name, pieces in files.items():
            _write_new(parts[name], pieces)
        _sync([*parts.values(), *above])
        for name, path in parts.items():
            os.replace(path, f"{home}/{name}")
    except BaseException as error:
        for path in parts.values():
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


def write(descriptor: int, pieces: Iterable[Any]) -> int:
    """Writes pieces of bytes where a file is at the moment, without a copy of any; returns how many."""
    count = 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            written = os.write(descriptor, rest)
            rest = rest[written:]
            count += written
    return count


def _write_new(path: str, pieces: Iterable[Any]) -> None:
    """Writes a file that is not there yet, and has the kernel begin to put it on the disk.

    To begin with a small one takes longer than to put it there with others, as measured."""
    with opened(path, NEW) as file:
        if write(file, pieces) < _LARGE:
            return
        with contextlib.suppress(AttributeError, OSError):
            # The kernel does so with what is said not to be needed again.
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(folder: str | Path) -> None:
    """Puts the names in a folder on the disk."""
    with opened(folder, _FOLDER) as descriptor:
        os.fsync(descriptor)


def _sync_path(path: str | Path) -> None:
    """Puts a file, or the names in a folder, on the disk."""
    with opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def _sync(paths: Sequence[str | Path]) -> None:
    """Synchronises files and folders of one moment, which may be more than a process may have open.

    Raises the error of the first that cannot be."""
    # The first synchronisation takes along what was begun. The others find nothing left to write, and wait
    # for a word of the disk: one for all that ask at the same time.
    _sync_path(paths[0])
    left = deque(paths[1:])
    errors: list[OSError] = []

    def sync_left() -> None:
        while left and not errors:
            with contextlib.suppress(IndexError):
                path = left.popleft()
                try:
                    _sync_path(path)
                except OSError as error:
                    errors.append(error)

    helpers = [threading.Thread(target=sync_left) for _ in range(len(left) // _SYNCED_BY_ONE)]
    with contextlib.ExitStack() as stack:
        for helper in helpers[:_MOST_HELPERS]:
            try:
                helper.start()
            except RuntimeError:
                # The interpreter is about to end, and starts no thread any more.
                break
            stack.callback(helper.join)
        sync_left()
    if errors:
        raise errors[0]
