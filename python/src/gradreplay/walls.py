"""Walls of Landlock around a copy of a staying program: what it may write, and that its signals and its looks
into other processes stay within. They need no privilege, and nobody behind them can take them down.

The program itself stands behind walls of replay's. These keep the copies, each with the code of one revision,
from the program and from one another. On a system without Landlock there are none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

try:
    import ctypes
except ImportError:
    # An interpreter may be built without it.
    ctypes = None  # type: ignore[assignment]

# The numbers of the calls, the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_TELL_VERSION = 1
_BENEATH_PATH = 1
# Accesses to files (landlock(7)), each since this version: writing, removing, making, moving, cutting off.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITES = {1: _WRITE_FILE | 0x1FF << 4, 2: 1 << 13, 3: _TRUNCATE}
# Abstract sockets and signals.
_SCOPES = {6: 0b11}


def why_not_enter() -> str | None:
    """Why no copy of this process could put on walls, or None if it can, or the system has none."""
    return "its Python has no ctypes" if ctypes is None else None


def version() -> int:
    """The version of this system's Landlock; below 1 without it."""
    return _call(_CREATE_RULESET, None, 0, _TELL_VERSION, is_question=True)


def enter(writable: Iterable[Path]) -> None:
    """Puts this process, which has one thread, behind walls: it writes below the paths `writable` alone.

    Raises OSError where the system has walls and refuses these."""
    offered = version()
    if offered < 1:
        return
    writes = sum(flags for since, flags in _WRITES.items() if since <= offered)
    scopes = sum(flags for since, flags in _SCOPES.items() if since <= offered)
    # Of files, connections and scopes; an earlier version knows a shorter one.
    attributes = (ctypes.c_uint64 * 3)(writes, 0, scopes)
    size = 24 if offered >= 6 else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path in writable:
            _open_path(ruleset, path, writes)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _open_path(ruleset: int, path: Path, writes: int) -> None:
    """Lets what stands behind `ruleset` write below `path`; what is missing stays behind it."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        accesses = writes if path.is_dir() else writes & (_WRITE_FILE | _TRUNCATE)
        rule = accesses.to_bytes(8, "little") + opened.to_bytes(4, "little")
        _call(_ADD_RULE, ruleset, _BENEATH_PATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(opened)


@cache
def _load_c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object, is_question: bool = False) -> int:
    passed = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(_load_c_library().syscall(ctypes.c_long(number), *passed))
    if result < 0 and not is_question:
        failure = ctypes.get_errno()
        raise OSError(failure, os.strerror(failure))
    return result
