"""Triton's interpreter, for kernels as they are written for a GPU: what it lacks, gets wrong or cannot do.

A kernel may know functions of `triton.language` by names of its own (`exp = tl.exp`), call libdevice, compute
in bfloat16, be autotuned, and be launched by the properties of a device. The interpreter of triton 3.6
refuses, misses or miscomputes these. All changes stay for the rest of the process.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from . import loading, triton_bfloat16, triton_device, triton_libdevice
from .faults import Blame, Place

_INTERPRETER = "triton.runtime.interpreter"


def is_used() -> bool:
    """Whether Triton's kernels are interpreted in this process."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def cache() -> str:
    """The folder in which Triton keeps what it has compiled, modules for its launches included."""
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    return os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")


def check_versions() -> None:
    """Refuses to interpret kernels with a NumPy that this Triton's interpreter does not work with.

    Raises :class:`Blame`."""
    if _at_least(np.__version__, (2, 4)) and not _at_least(_version(), (3, 7)):
        raise Blame(
            "environment",
            f"triton {_version()}'s interpreter does not work with numpy {np.__version__}",
            f'{sys.executable} -m pip install "numpy<2.4"',
        )


def complete(place: Place, device: str) -> None:
    """Completes the interpreter, now or when it is imported."""
    if is_used():
        when_loaded(lambda interpreter: complete_module(interpreter, place, device))


def when_loaded(change: Callable[[Any], None]) -> None:
    """Calls `change` with the interpreter's module, now or when it is imported."""
    loading.when_loaded(_INTERPRETER, change)


def complete_module(interpreter: Any, place: Place, device: str) -> None:
    """Completes an interpreter's module that is loaded; a second time does nothing."""
    if getattr(interpreter.InterpreterBuilder, "completed", False):
        return
    interpreter.InterpreterBuilder.completed = True
    triton_bfloat16.apply(interpreter)
    triton_libdevice.apply(interpreter)
    if device == "cpu":
        triton_device.apply(place)
    _choose_first_config()
    interpreter._patch_lang = _Language(interpreter, place).enter


def _choose_first_config() -> None:
    """Autotuned kernels run the first of their configurations, or of those that pruning leaves."""
    autotuner: Any = sys.modules["triton.runtime.autotuner"].Autotuner

    def first(tuner: Any, named: dict[str, Any]) -> list[Any]:
        configs = list(tuner.configs)
        if tuner.early_config_prune:
            configs = list(tuner.early_config_prune(tuner.configs, tuner.nargs, **named))
        return configs[:1] or list(tuner.configs)[:1]

    def measured(_tuner: Any, *_args: Any, **_named: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    autotuner.prune_configs = first
    autotuner._bench = measured


# What the interpreter has of its own for functions of `triton.language`.
_OWN = """
    reduce associative_scan range static_range static_assert static_print
    multiple_of max_contiguous max_constancy
""".split()
_LIBDEVICE = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")


class _Language:
    """The functions of `triton.language` while kernels are interpreted."""

    def __init__(self, interpreter: Any, place: Place) -> None:
        self._interpreter, self._place = interpreter, place
        self._patch: Callable[..., Any] = interpreter._patch_lang
        self._language: Any = sys.modules["triton.language"]
        self._core: Any = sys.modules["triton.language.core"]
        self._is_entered = False
        # Namespaces whose functions are bound, by their identity.
        self._bound: dict[int, dict[str, Any]] = {}

    def enter(self, function: Any) -> Any:
        """Binds what a function knows to the interpreter; a launch leaves it again by `restore`."""
        names = function.__globals__
        self._bind_names(names, str(names.get("__name__", "")).partition(".")[0])
        if self._is_entered:
            # A function that a kernel calls.
            return types.SimpleNamespace(restore=lambda: None)
        # Here and not at an import: PyTorch imports Triton, too, and needs no kernel of it.
        check_versions()
        self._is_entered = True
        # A module may know functions of Triton alone, and not the module that they are of.
        language = {"tl": self._language, "core": self._core}
        scope = self._patch(types.SimpleNamespace(__globals__=language))
        return types.SimpleNamespace(restore=lambda: self._leave(scope))

    def _leave(self, scope: Any) -> None:
        self._is_entered = False
        if scope is not None:
            scope.restore()

    def _bind_names(self, names: dict[str, Any], package: str) -> None:
        """Binds functions of Triton in a namespace, and in modules of its package that it names."""
        if id(names) in self._bound:
            return
        self._bound[id(names)] = names
        for name, value in list(names.items()):
            if isinstance(value, ModuleType):
                if self._may_know_kernels(value, package):
                    self._bind_names(vars(value), package)
            elif not name.startswith("__") and (bound := self._bind(value)) is not value:
                names[name] = bound

    def _may_know_kernels(self, module: ModuleType, package: str) -> bool:
        top = module.__name__.partition(".")[0]
        if top == "triton":
            # The interpreter binds the language itself.
            return module.__name__ in _LIBDEVICE
        return top == package or self._place.in_tree(getattr(module, "__file__", None))

    def _bind(self, value: Any) -> Any:
        name, module = getattr(value, "__name__", ""), getattr(value, "__module__", None)
        if module == self._core.__name__ and name in _OWN:
            return lambda *args, **named: getattr(self._language, name)(*args, **named)
        if module == _LIBDEVICE[0] and callable(value):
            # It has names alone, for which a compiler takes those of the device.
            value = getattr(importlib.import_module(_LIBDEVICE[1]), name, value)
        return self._call(value) if self._core.is_builtin(value) else value

    def _call(self, builtin: Callable[..., Any]) -> Callable[..., Any]:
        semantic = self._interpreter.interpreter_semantic

        def call(*args: Any, **named: Any) -> Any:
            result = builtin(*args, **named | {"_semantic": semantic})
            is_device = builtin.__module__ == _LIBDEVICE[1]
            return self._in_own_types(result) if is_device else result

        return call

    def _in_own_types(self, result: Any) -> Any:
        """A result of libdevice in the language's types, which a twin changes; its own are equal copies."""
        scalar = result.handle.dtype.scalar
        kind = result.type.with_element_ty(scalar) if result.type.is_block() else scalar
        return self._core.tensor(result.handle, kind)


def _version() -> str:
    return str(getattr(sys.modules.get("triton"), "__version__", ""))


def _at_least(version: str, wanted: tuple[int, ...]) -> bool:
    numbers = []
    for part in version.split(".")[: len(wanted)]:
        digits = "".join(character for character in part if character.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers) >= wanted
