"""Whose fault an exception is: the revision's, the environment's or the harness program's.

A bisect may step over a revision that cannot be tested, and must not believe a machine that
cannot test any. So an exception is judged by where it was raised and, for an import that failed, by
where the module would have been. What cannot be told apart counts as the revision's, such as an
attribute that the installed version of a package lacks or never had: a bisect proves the program on a
revision that works before it believes that.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np

Party = Literal["revision", "environment", "program"]

# The lines of a traceback that are handed on: its last ones, which say what happened.
_TRACEBACK_LINES = 40
# Folders of what is installed into an environment, which may lie in a repository.
INSTALLED = ("/site-packages/", "/dist-packages/")
_PACKAGE = os.path.dirname(os.path.realpath(__file__))


@dataclass(frozen=True)
class Fault:
    """Who is to blame, in one line, with the traceback's last lines and what can be done."""

    party: Party
    message: str
    traceback: str = ""
    hint: str | None = None
    # A module that the environment lacks and that the revision's own code leads to.
    module: str | None = None

    @property
    def exit_code(self) -> int:
        """125: the revision cannot be tested. 126: no revision can."""
        return 125 if self.party == "revision" else 126


class Blame(Exception):
    """An error that gradreplay itself found, with its fault."""

    def __init__(self, party: Party, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.party: Party = party
        self.hint = hint


@dataclass(frozen=True)
class Place:
    """Where files lie: `roots` are the folders of the tree that modules are imported from."""

    tree: Path | None = None
    roots: Sequence[Path] = ()
    program: Path | None = None

    def in_tree(self, file: str | None) -> bool:
        """Whether a file is one of the revision's, and of no environment inside of its folder."""
        if self.tree is None or not file or any(folder in file for folder in INSTALLED):
            return False
        return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.tree))

    def in_program(self, file: str | None) -> bool:
        """Whether a file is the harness program."""
        return bool(file and self.program) and os.path.realpath(file or "") == os.path.realpath(
            self.program or ""
        )

    def offers(self, module: str) -> bool:
        """Whether the tree has a top-level module or package of this name."""
        for root in self.roots:
            if (root / module).is_dir() or (root / f"{module}.py").is_file():
                return True
            if next(root.glob(f"{module}.*.so"), None) or (root / f"{module}.so").is_file():
                return True
        return False

    def holds(self, name: str) -> bool:
        """Whether the tree has the file of a module, named with its packages."""
        path = name.replace(".", "/")
        return any(
            (root / f"{path}.py").is_file() or (root / path / "__init__.py").is_file()
            for root in self.roots
        )

    def was_imported(self) -> bool:
        """Whether any module of the tree has been imported."""
        return any(
            self.in_tree(getattr(module, "__file__", None)) for module in list(sys.modules.values())
        )

    def without_tree(self, text: str) -> str:
        """A text in which the tree's files are told as they are in the revision."""
        for folder in (os.path.realpath(self.tree), os.fspath(self.tree)) if self.tree else ():
            text = text.replace(folder + os.sep, "")
        return text

    def shown(self, file: str) -> str:
        """A file's name, relative to the tree if it lies there."""
        if self.in_tree(file):
            return os.path.relpath(os.path.realpath(file), os.path.realpath(self.tree or ""))
        return os.path.basename(file) if self.in_program(file) else file


_MEMORY_HINT = "a replay has as much memory as `replay --memory` says"


def judge(error: BaseException, place: Place) -> Fault:
    """Says whose fault an exception is that came out of the harness's function, or out of an import."""
    text = _traceback(error)
    # Frameworks wrap what a kernel raises.
    blame = next((cause for cause in _causes(error) if isinstance(cause, Blame)), None)
    if blame is not None:
        # What gradreplay itself says of the call has no lines of anybody's code.
        told = text if any(_frames(error)) else ""
        return Fault(blame.party, str(blame), told, blame.hint)
    if isinstance(error, SyntaxError):
        party: Party = "environment"
        if place.in_tree(error.filename):
            party = "revision"
        elif place.in_program(error.filename):
            party = "program"
        return Fault(party, _message(error, place), text)
    if isinstance(error, ImportError):
        return _judge_import(error, place, text)
    if (kernel := _raised_in_kernel(error)) is not error:
        return _judge_kernel(kernel, place, text)
    hint = _MEMORY_HINT if isinstance(error, MemoryError) else _other_version(error, place)
    return Fault(_judge_raised(error, place), _message(error, place), text, hint)


def _raised_in_kernel(error: BaseException) -> BaseException:
    """What a kernel raised, without the wrappers of Triton's interpreter; else the error itself."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


# The file with what Triton's interpreter does itself.
_INTERPRETER = os.path.join("triton", "runtime", "interpreter.py")


def _judge_kernel(error: BaseException, place: Place, text: str) -> Fault:
    message = _message(error, place)
    if isinstance(error, MemoryError):
        return Fault("revision", message, text, _MEMORY_HINT)
    if _is_interpreters_own(error):
        hint = "Triton's interpreter cannot run this kernel: replay on a GPU (--backend cuda)"
        return Fault("environment", message, text, hint)
    # The language's own refusals are those of a compiler.
    return Fault("revision", message, text, _other_version(error, place))


def _is_interpreters_own(error: BaseException) -> bool:
    """Whether a kernel failed for what the interpreter lacks, and no compiler does."""
    if (
        isinstance(error, AttributeError)
        and type(error.obj).__module__ == "triton.runtime.interpreter"
    ):
        return True
    if isinstance(error, ValueError) and "@triton.jit" in first_line(error):
        # A function of the language by a name that was not bound.
        return True
    if isinstance(error, AssertionError):
        # `tl.device_assert` and its like.
        return False
    numpy = os.path.dirname(os.path.realpath(np.__file__)) + os.sep
    files = [os.path.realpath(file) for file, _ in _lines(error)]
    innermost = next((file for file in reversed(files) if not file.startswith(numpy)), "")
    return innermost.endswith(_INTERPRETER) or os.path.dirname(innermost) == _PACKAGE


def _other_version(error: BaseException, place: Place) -> str | None:
    """Advice about an attribute that a package outside of the tree lacks."""
    if not isinstance(error, AttributeError):
        return None
    # NumPy raises such errors itself, and says of which module in the text alone.
    told = re.match(r"module '([\w.]+)' has no attribute", first_line(error))
    module = sys.modules.get(told[1]) if told else error.obj
    if not isinstance(module, ModuleType) or place.in_tree(getattr(module, "__file__", None)):
        return None
    package = sys.modules.get(module.__name__.partition(".")[0], module)
    version = getattr(package, "__version__", None)
    installed = package.__name__ if version is None else f"{package.__name__} {version}"
    return f"{installed} is installed for {sys.executable}; the revision may need another version"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, what it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _judge_raised(error: BaseException, place: Place) -> Party:
    frames = _frames(error)
    if any(place.in_tree(frame) for frame in frames):
        return "revision"
    if not place.was_imported():
        # Nothing of the revision took part: the program fails at every revision.
        return "program" if any(place.in_program(frame) for frame in frames) else "environment"
    if isinstance(error, NameError) and frames and place.in_program(frames[-1]):
        return "program"
    return "revision"


def _judge_import(error: ImportError, place: Place, text: str) -> Fault:
    message = _message(error, place)
    top = (error.name or "").partition(".")[0]
    frames = _frames(error)
    importer = frames[-1] if frames else ""
    if (top and place.offers(top)) or place.in_tree(error.path):
        return Fault("revision", message, text)
    if not isinstance(error, ModuleNotFoundError) or not top:
        # A name that a package outside of the tree lacks, or that the revision itself misses.
        raised = not top and place.in_tree(importer)
        return Fault("revision" if raised else "environment", message, text)
    if place.tree is not None and place.in_program(importer):
        message = f"neither the revision nor {sys.executable} has a module `{top}`"
        return Fault("revision", message, text)
    hint = f"install the package of `{top}` for {sys.executable}"
    asked = top if any(place.in_tree(frame) for frame in frames) else None
    return Fault("environment", message, text, hint, asked)


def _frames(error: BaseException) -> list[str]:
    """The files of the calls that led to an exception, innermost last, without the import system."""
    return [
        frame.f_code.co_filename
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<frozen ")
        and os.path.dirname(os.path.realpath(frame.f_code.co_filename)) != _PACKAGE
    ]


def _message(error: BaseException, place: Place) -> str:
    """One line: the exception, and the innermost line of the revision or the program."""
    told = place.without_tree(f"{type(error).__name__}: {first_line(error)}".rstrip(": "))
    if isinstance(error, SyntaxError) and error.filename:
        told = f"{type(error).__name__}: {error.msg}"
        return f"{place.shown(error.filename)}:{error.lineno}: {told}"
    for file, line in reversed(list(_lines(error))):
        if place.in_tree(file) or place.in_program(file):
            return f"{place.shown(file)}:{line}: {told}"
    return told


def _lines(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, which may itself fail to be made."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        return "(its text cannot be made)"
    return lines[0] if lines else ""


def _traceback(error: BaseException) -> str:
    # The frames of this package tell nothing about the revision.
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list(
        [
            frame
            for frame in told.stack
            if os.path.dirname(os.path.realpath(frame.filename)) != _PACKAGE
        ]
    )
    try:
        text = "".join(told.format())
    except Exception:
        text = f"{type(error).__name__}\n"
    return "\n".join(text.splitlines()[-_TRACEBACK_LINES:])
