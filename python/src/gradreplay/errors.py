"""What keeps a command of replay from an answer, as an exception.

A replay that diverged or failed is an answer, and so is a revision that cannot be tested where the
command says so in its document.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .report import Report

Kind = Literal["revision", "elsewhere", "program"]


@dataclass(frozen=True)
class Place:
    """Where in a file an error lies; line and column count from 1, in characters."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class ErrorText:
    """An error as the program prints it."""

    message: str
    excerpt: str = ""
    causes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.message, *([self.excerpt] if self.excerpt else [])]
        lines += [f"caused by: {cause}" for cause in self.causes]
        lines += [f"hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


class ReplayError(Exception):
    """There is no answer, or none for one of the fixtures.

    `kind` says whose fault it is: `"revision"` (it cannot be tested), `"program"` (replay is missing, or of
    another version than this package) or `"elsewhere"` (usage, a bad fixture or harness, the machine)."""

    kind: Kind = "elsewhere"

    def __init__(self, errors: Sequence[ErrorText], exit_code: int | None = None) -> None:
        super().__init__(errors, exit_code)
        self.errors = tuple(errors)
        """All errors; the other attributes are those of the first."""
        self.exit_code = exit_code
        """The exit code of the program (docs/exit-codes.md); `None` where it did not run to its end."""
        self.result: Report | None = None
        """Of several fixtures, the result on the others."""
        self.message = errors[0].message
        self.causes = errors[0].causes
        self.hint = "; ".join(errors[0].hints) or None
        self.place = place_of(errors[0])

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


class RevisionError(ReplayError):
    """The revision or the checkout is at fault: it cannot be tested."""

    kind: Kind = "revision"


class ProgramError(ReplayError):
    """The program is not there, or it and this package are of different versions."""

    kind: Kind = "program"

    def __init__(self, message: str, hint: str, exit_code: int | None = None) -> None:
        super().__init__([ErrorText(message, hints=(hint,))], exit_code)

    def __reduce__(self) -> tuple[type[ProgramError], tuple[str, str, int | None]]:
        return type(self), (self.message, self.hint or "", self.exit_code)


def place_of(error: ErrorText) -> Place | None:
    """The place of an error with an excerpt: the first `file:line:column` of its message or causes."""
    if not error.excerpt:
        return None
    for text in (error.message, *error.causes):
        if found := re.search(r":(\d+):(\d+)", text):
            path = _path_at_end(text[: found.start()])
            return Place(path, int(found[1]), int(found[2]))
    return None


def _path_at_end(text: str) -> str:
    """The longest path of a file that a text ends with; its last word where there is none."""
    words = text.split(" ")
    ends = (" ".join(words[first:]) for first in range(len(words)))
    return next((end for end in ends if os.path.isfile(end)), words[-1])


_LABEL = re.compile(r"(error|caused by|hint): ?(.*)")


class ErrorReader:
    """Takes errors out of the lines of the program's standard error, one line after the other."""

    def __init__(self) -> None:
        self._errors: list[list[tuple[str, list[str]]]] = []
        self._is_open = False

    def takes(self, line: str) -> bool:
        """Whether a line, without its end, belongs to an error; all others are messages."""
        found = _LABEL.fullmatch(line)
        if found and found[1] == "error":
            self._errors.append([("error", [found[2]])])
            self._is_open = True
        elif found and self._is_open:
            self._errors[-1].append((found[1], [found[2]]))
        elif self._is_open and (not line or line.startswith((" ", "|")) or is_excerpt(line)):
            label, lines = self._errors[-1][-1]
            if is_excerpt(line) and label != "excerpt":
                self._errors[-1].append(("excerpt", [line]))
            else:
                lines.append(line if label == "excerpt" else line.removeprefix("  "))
        else:
            self._is_open = False
        return self._is_open

    def errors(self) -> list[ErrorText]:
        """The errors so far."""
        return [_text_of(parts) for parts in self._errors]


def is_excerpt(line: str) -> bool:
    """Whether a line shows a line of a file, or what is above and below it."""
    return re.match(r" *\d* *\|", line) is not None


def _text_of(parts: list[tuple[str, list[str]]]) -> ErrorText:
    texts = [(label, "\n".join(lines).rstrip()) for label, lines in parts]
    return ErrorText(
        texts[0][1],
        "\n".join(text for label, text in texts if label == "excerpt"),
        tuple(text for label, text in texts if label == "caused by"),
        tuple(text for label, text in texts if label == "hint"),
    )
