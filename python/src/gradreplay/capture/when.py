"""Which steps are captured: conditions, combined by `|`.

A condition is a value without a memory of its own, for the `with` line makes a new one in every step.
What it has to remember stands in :class:`History`, of which there is one for each path.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field

# How many values of a metric its usual value is the median of, and how many it takes.
_WINDOW = 32
_LEAST = 8


@dataclass
class History:
    """What conditions remember of the steps so far."""

    steps: int = 0
    metrics: dict[str, deque[float]] = field(default_factory=dict)

    def end_step(self, metrics: dict[str, float]) -> None:
        """Notes a step that has ended, with its metrics."""
        self.steps += 1
        for name, value in metrics.items():
            if math.isfinite(value):
                self.metrics.setdefault(name, deque(maxlen=_WINDOW)).append(value)


@dataclass
class Outcome:
    """What is known of a step at its end."""

    metrics: dict[str, float]
    nonfinite: bool
    failed: bool


class When:
    """A condition on steps."""

    def early(self, history: History) -> bool:
        """Whether the step that begins is captured, whatever comes of it."""
        return False

    def late(self, history: History, outcome: Outcome) -> bool:
        """Whether the step that has ended is captured."""
        return False

    @property
    def waits(self) -> bool:
        """Whether :meth:`late` has a say, so that the step must be kept in memory until then."""
        return False

    @property
    def guards(self) -> bool:
        """Whether the step must be on the disk until it has ended well."""
        return False

    def __or__(self, other: When) -> When:
        return Either(self, other)


@dataclass(frozen=True)
class Either(When):
    """One condition or the other."""

    left: When
    right: When

    def early(self, history: History) -> bool:
        return self.left.early(history) or self.right.early(history)

    def late(self, history: History, outcome: Outcome) -> bool:
        return self.left.late(history, outcome) or self.right.late(history, outcome)

    @property
    def waits(self) -> bool:
        return self.left.waits or self.right.waits

    @property
    def guards(self) -> bool:
        return self.left.guards or self.right.guards


@dataclass(frozen=True)
class First(When):
    """The first `count` steps of this process."""

    count: int

    def early(self, history: History) -> bool:
        return history.steps < self.count


@dataclass(frozen=True)
class Every(When):
    """Every `count`-th step of this process, the first included."""

    count: int

    def early(self, history: History) -> bool:
        return history.steps % self.count == 0


@dataclass(frozen=True)
class Spike(When):
    """Steps whose metric exceeds `factor` times its median over the last 32 steps, or is not finite."""

    name: str
    factor: float

    def late(self, history: History, outcome: Outcome) -> bool:
        value = outcome.metrics.get(self.name)
        if value is None:
            return False
        if not math.isfinite(value):
            return True
        known = history.metrics.get(self.name, ())
        return len(known) >= _LEAST and value > self.factor * statistics.median(known)

    @property
    def waits(self) -> bool:
        return True


@dataclass(frozen=True)
class Nonfinite(When):
    """Steps with a captured tensor or a metric that holds a NaN or an infinity."""

    def late(self, history: History, outcome: Outcome) -> bool:
        return outcome.nonfinite or not all(map(math.isfinite, outcome.metrics.values()))

    @property
    def waits(self) -> bool:
        return True


@dataclass(frozen=True)
class Crash(When):
    """Steps that do not end: an exception leaves them, or the process dies in them."""

    def late(self, history: History, outcome: Outcome) -> bool:
        return outcome.failed

    @property
    def guards(self) -> bool:
        return True


def _positive(name: str, count: int) -> int:
    if count < 1:
        raise ValueError(f"{name}({count}): a number of steps is at least 1")
    return count


def first(count: int) -> When:
    """The first `count` steps of this process."""
    return First(_positive("first", count))


def every(count: int) -> When:
    """Every `count`-th step of this process, the first included."""
    return Every(_positive("every", count))


def spike(name: str, factor: float) -> When:
    """Steps in which `capture.metric(name, value)` tells more than `factor` times the usual value.

    The usual value is the median of the last 32 steps; 8 of them must be known. A value that is not
    finite is a spike."""
    return Spike(name, factor)


def nonfinite() -> When:
    """Steps in which a captured tensor or a metric holds a NaN or an infinity."""
    return Nonfinite()


def crash() -> When:
    """Steps that do not end well. Each step is written to the disk, and deleted when it has ended."""
    return Crash()
