"""One thread that writes what the training need not wait for, in the order in which it was asked to."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable

from .errors import tell

# A training that produces faster than the disk takes waits once this much lies in memory.
_MOST_BYTES = 4 << 30


class Background:
    """Jobs that run one after the other, beside the training."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Callable[[], None], int]] = deque()
        self._bytes = 0
        self._owner = 0

    def submit(self, job: Callable[[], None], size: int) -> None:
        """Runs `job` later; it keeps `size` bytes of memory until it has run."""
        with self._changed:
            self._start()
            while self._jobs and self._bytes + size > _MOST_BYTES:
                self._changed.wait()
            self._jobs.append((job, size))
            self._bytes += size
            self._changed.notify_all()

    def wait(self) -> None:
        """Returns when all jobs have run."""
        with self._changed:
            while self._jobs and self._owner == os.getpid():
                self._changed.wait()

    def _start(self) -> None:
        if self._owner == os.getpid():
            return
        # The first job, or the first after a fork, which leaves the thread and its jobs behind.
        self._jobs.clear()
        self._bytes = 0
        self._owner = os.getpid()
        threading.Thread(target=self._run, name="gradreplay-capture", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                job, size = self._jobs[0]
            try:
                job()
            except Exception as error:
                # The step that it belongs to has gone on: nobody is left to raise it to.
                tell(error, strict=False)
            with self._changed:
                self._jobs.popleft()
                self._bytes -= size
                self._changed.notify_all()


background = Background()
atexit.register(background.wait)
