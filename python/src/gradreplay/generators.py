"""States of the random generators that a process has one of: those of Python, NumPy and PyTorch.

A fixture holds them as texts, as they were when its call was captured. A replay begins with them, so that
what draws random numbers (dropout) draws those of the training.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .faults import Blame
from .notes import note

# What the keys of a file's metadata begin with.
PREFIX = "random."


def states(device: int | None = None) -> dict[str, str]:
    """The states of the generators of this process and of a GPU, by their keys in a file's metadata.

    The GPU is the one with this number, or the current one; none where PyTorch has not started one."""
    return Snapshot.take(device).texts()


@dataclass(frozen=True)
class Snapshot:
    """The states of the generators at one moment; two are equal if nothing was drawn between them."""

    python: Any
    numpy: tuple[Any, ...]
    # Of the CPU and of a GPU, where PyTorch has them.
    torch: bytes | None
    cuda: bytes | None

    @staticmethod
    def take(device: int | None = None) -> Snapshot:
        """The states now, as of :func:`states`."""
        kind, words, *rest = np.random.get_state()
        numpy = (kind, np.asarray(words, "<u4").tobytes(), *rest)
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return Snapshot(random.getstate(), numpy, None, None)
        cpu = torch.default_generator.get_state().numpy().tobytes()
        cuda = None
        if torch.cuda.is_initialized():
            cuda = _cuda_generator(torch, device).get_state().numpy().tobytes()
        return Snapshot(random.getstate(), numpy, cpu, cuda)

    def texts(self) -> dict[str, str]:
        """The states by their keys in a file's metadata."""
        found = {"python": _python_text(self.python), "numpy": _numpy_text(self.numpy)}
        found["torch"] = None if self.torch is None else _text(self.torch)
        found["cuda"] = None if self.cuda is None else _text(self.cuda)
        return {f"{PREFIX}{name}": text for name, text in found.items() if text is not None}


class Restored:
    """The generators' states that a replay begins with."""

    def __init__(self) -> None:
        self._states: Mapping[str, str] = {}

    def hold(self, metadata: Mapping[str, str]) -> None:
        """Takes the states from a file's metadata."""
        self._states = {
            key.removeprefix(PREFIX): text
            for key, text in metadata.items()
            if key.startswith(PREFIX)
        }

    def restore(self) -> None:
        """Sets the generators to these states; those without one stay as they are.

        Raises :class:`Blame` if one of them is none."""
        try:
            self._restore(self._states)
        except (ValueError, TypeError, RuntimeError) as error:
            raise Blame(
                "environment",
                f"the states of random generators in the fixture cannot be restored: {error}",
                "another version of Python or PyTorch may have written them: capture the step again",
            ) from error

    def _restore(self, states: Mapping[str, str]) -> None:
        if "python" in states:
            version, words, gauss = json.loads(states["python"])
            random.setstate((version, tuple(map(int, _words(words))), gauss))
        if "numpy" in states:
            words, position, has_gauss, gauss = json.loads(states["numpy"])
            np.random.set_state(("MT19937", _words(words), position, has_gauss, gauss))
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return
        if "torch" in states:
            torch.default_generator.set_state(_torch_state(torch, states["torch"]))
        if "cuda" in states and torch.cuda.is_available():
            _cuda_generator(torch, None).set_state(_torch_state(torch, states["cuda"]))

    def tell(self, device: str) -> None:
        """Notes random numbers that were drawn on the CPU, and on a GPU when they were captured."""
        torch: Any = sys.modules.get("torch")
        if device != "cpu" or "cuda" not in self._states or torch is None:
            return
        state = torch.default_generator.get_state().numpy().tobytes()
        if _text(state) != self._states.get("torch"):
            note(
                "random numbers were drawn on the CPU: those of the capture were a GPU's, and are "
                "others, so that outputs are not the captured ones (--backend cuda repeats them)"
            )


restored = Restored()


def restore_random() -> None:
    """Sets the generators of Python, NumPy and PyTorch to their states when the call was captured.

    Each replay begins so. A harness that draws random numbers before the call, as modules do that are built,
    asks for it again right before. It does nothing where the fixture holds no states."""
    restored.restore()


def _python_text(state: Any) -> str:
    version, words, gauss = state
    return json.dumps([version, _text(np.array(words, "<u4").tobytes()), gauss])


def _numpy_text(state: tuple[Any, ...]) -> str | None:
    kind, words, position, has_gauss, gauss = state
    # Another generator, which the program has put in its place.
    if kind != "MT19937":
        return None
    return json.dumps([_text(words), int(position), int(has_gauss), float(gauss)])


def _cuda_generator(torch: Any, device: int | None) -> Any:
    return torch.cuda.default_generators[torch.cuda.current_device() if device is None else device]


def _torch_state(torch: Any, text: str) -> Any:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())


def _text(state: bytes) -> str:
    return base64.b64encode(state).decode()


def _words(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "<u4")
