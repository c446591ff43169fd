"""What goes wrong while capturing, and who hears of it.

Capturing must not end a training. An error is raised only where `strict=True` asks for it; otherwise
it is logged, once, and the training goes on without that capture.
"""

from __future__ import annotations

import logging
import re

log = logging.getLogger("gradreplay.capture")

_told: set[str] = set()


class CaptureError(Exception):
    """Something that cannot be captured. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def tell(error: BaseException, *, strict: bool) -> None:
    """Raises `error` if `strict`, else logs it unless its text was, whatever the numbers in it."""
    if strict:
        raise error
    text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
    # What fails in every step says the same, but for the number of the step.
    kind = re.sub(r"\d+", "0", text)
    if kind in _told:
        return
    _told.add(kind)
    hint = getattr(error, "hint", None)
    log.warning("not captured: %s%s", text, f" (hint: {hint})" if hint else "")


def forget() -> None:
    """Lets errors that were logged be logged again."""
    _told.clear()
