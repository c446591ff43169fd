"""Warnings of a replay, which replay passes on once each."""

from __future__ import annotations

_said: list[str] = []


def note(text: str) -> None:
    """Adds a line to what replay tells its user about this revision; the same line counts once."""
    line = " ".join(text.split())
    if line and line not in _said:
        _said.append(line)


def said() -> list[str]:
    """The notes so far."""
    return list(_said)
