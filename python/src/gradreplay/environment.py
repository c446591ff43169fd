"""The interpreter and its packages: what identifies them, what is set before frameworks are
imported, and whether children can be forked."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

from .rounding import jax_has_run


def identity() -> str:
    """Interpreter and installed distributions with their versions, one a line."""
    found = {
        (str(item.metadata["Name"]).lower(), item.version)
        for item in importlib.metadata.distributions()
        if item.metadata["Name"]
    }
    lines = [
        f"{platform.python_implementation()} {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        *(f"{name} {version}" for name, version in sorted(found)),
    ]
    return "\n".join(lines)


def prepare(environment: MutableMapping[str, str]) -> None:
    """Sets what frameworks read when they are imported, unless the user has set it.

    On the CPU Triton interprets and JAX looks for no other device. JAX keeps what it has compiled,
    and has no more threads than replay allows."""
    if environment.get("REPLAY_DEVICE") == "cpu":
        environment.setdefault("TRITON_INTERPRET", "1")
        environment.setdefault("JAX_PLATFORMS", "cpu")
    else:
        # Replays share a GPU: none takes all of its memory.
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if "REPLAY_THREADS" in environment:
        # What XLA takes for the number of processors.
        environment.setdefault("NPROC", environment["REPLAY_THREADS"])
    if "JAX_COMPILATION_CACHE_DIR" not in environment:
        environment["JAX_COMPILATION_CACHE_DIR"] = os.fspath(cache_folder(environment) / "jax")
        environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        environment.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def cache_folder(environment: MutableMapping[str, str]) -> Path:
    """What is kept between replays, beside replay's own cache, which holds files of replay alone."""
    for variable in ("REPLAY_CACHE_DIR", "XDG_CACHE_HOME"):
        if environment.get(variable):
            return Path(environment[variable]) / "gradreplay"
    return Path(environment.get("HOME", "/")) / ".cache" / "gradreplay"


class Randomness:
    """The random numbers of replays: each has those of a process that has just begun.

    Made before modules are preloaded: one that imported PyTorch already may have seeded it."""

    def __init__(self) -> None:
        self._may_be_seeded = "torch" in sys.modules
        self._state: Any = None

    def begin(self) -> None:
        """Those of Python and NumPy are others each time, and so are PyTorch's unless the program may
        have seeded them."""
        random.seed()
        np.random.seed()
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return
        if not self._may_be_seeded:
            torch.default_generator.seed()
            # Those of devices begin with the seed of every new generator.
            torch.cuda.manual_seed_all(torch.Generator().initial_seed())
        elif self._state is None:
            self._state = torch.initial_seed(), torch.get_rng_state()
        else:
            seed, state = self._state
            torch.manual_seed(seed)
            torch.set_rng_state(state)


# Forks


def native_threads() -> int:
    """How many threads the process has, those of libraries included."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


# Those of NumPy's own library, which starts them again in a child.
_threads_of_numpy = native_threads()


def shares_memory() -> bool:
    """Whether this process can write memory that it would share with its copies."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any(line.split(maxsplit=2)[1] in ("rw-s", "rwxs") for line in maps)
    except OSError:
        return False


def why_not_fork() -> str | None:
    """Why a child of this process could not work, or None if it can."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "a CUDA context of PyTorch is there already"
    if jax_has_run():
        return "JAX has started a device already"
    if shares_memory():
        return "an imported module has made memory that its copies would share"
    started = native_threads() - _threads_of_numpy
    if started > 0:
        return f"{started} thread{'s run' if started > 1 else ' runs'} that an imported module has started"
    return None
