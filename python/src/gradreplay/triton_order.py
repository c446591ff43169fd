"""Another order of the programs of a grid, in Triton's interpreter.

The interpreter runs the programs of a launch one after the other, by their indices. A GPU promises no order:
sums by atomics round otherwise in another one, and what depends on it beyond rounding is a race.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from . import triton_interpreter
from .faults import Blame
from .patches import replaced

INDICES, REVERSED = "indices", "reversed"
Effect = Literal["applied", "unsupported"]

# More in one program are a wait for another that comes later in this order: it would not end.
_MOST_ACCESSES = 1 << 16
_ACCESSES = ("create_masked_load", "create_atomic_rmw", "create_atomic_cas")


def check(order: str) -> str:
    """An order in the words of the protocol: `indices`, `reversed` or a seed in hexadecimal.

    Raises :class:`Blame`."""
    try:
        return order if order in (INDICES, REVERSED) else f"{int(order, 16):x}"
    except ValueError:
        raise Blame(
            "environment", f"replay asked for order `{order}`, which is not known"
        ) from None


class Grids:
    """The launches of a replay."""

    def __init__(self, order: str) -> None:
        self.order = order
        self._has_programs = False
        self._places: list[int] = []
        self._dims = (1, 1, 1)
        self._accesses = 0

    @property
    def effect(self) -> Effect:
        """Whether a launch could run its programs in this order: one with several programs."""
        return "applied" if self._has_programs else "unsupported"

    def begin(self, dims: tuple[int, int, int]) -> None:
        """A launch begins."""
        count = dims[0] * dims[1] * dims[2]
        self._has_programs |= count > 1
        self._dims = dims
        self._places = list(range(count))
        if self.order == REVERSED:
            self._places.reverse()
        elif self.order != INDICES:
            random.Random(int(self.order, 16)).shuffle(self._places)

    def moved(self, x: int, y: int, z: int) -> tuple[int, int, int]:
        """The program that runs in the place of this one."""
        self._accesses = 0
        _, rows, columns = self._dims
        place = self._places[(x * rows + y) * columns + z]
        return place // (rows * columns), place // columns % rows, place % columns

    def count_access(self) -> None:
        """Ends a program that waits."""
        self._accesses += 1
        if self._accesses > _MOST_ACCESSES:
            raise RuntimeError("a program of the grid waits for one that comes later in this order")


@contextmanager
def ordered(order: str) -> Iterator[Grids]:
    """Runs the programs of each grid in an order for the length of a block; Triton may be imported in it."""
    grids = Grids(order)
    with ExitStack() as changes:
        if triton_interpreter.is_used():
            triton_interpreter.when_loaded(lambda module: _watch(module, grids, changes))
        yield grids


def _watch(interpreter: Any, grids: Grids, changes: ExitStack) -> None:
    builder = interpreter.InterpreterBuilder
    set_dims, set_index = builder.set_grid_dim, builder.set_grid_idx

    def begin(own: Any, *dims: int) -> None:
        grids.begin((dims[0], dims[1], dims[2]))
        set_dims(own, *dims)

    def move(own: Any, *index: int) -> None:
        set_index(own, *grids.moved(index[0], index[1], index[2]))

    def counted(known: Callable[..., Any]) -> Callable[..., Any]:
        def access(*args: Any, **named: Any) -> Any:
            grids.count_access()
            return known(*args, **named)

        return access

    changes.enter_context(replaced(builder, "set_grid_dim", begin))
    changes.enter_context(replaced(builder, "set_grid_idx", move))
    if grids.order != INDICES:
        for name in _ACCESSES:
            changes.enter_context(replaced(builder, name, counted(getattr(builder, name))))
