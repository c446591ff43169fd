"""Packages of the revision that import what is not installed, where the harness needs a module of theirs."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .faults import Place, first_line, judge
from .notes import note


def shorten(place: Place) -> None:
    """Ends the `__init__` of a package where it needs what is missing: its modules can still be imported.

    A note tells of it. A name that the package then lacks raises what ended it."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(place))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds packages of the revision as others do, and lets them end early."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        is_package = spec is not None and spec.submodule_search_locations is not None
        if spec is None or not is_package or not self._place.in_tree(spec.origin):
            return None
        if spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                execute(module)
            except ImportError as error:
                if judge(error, self._place).party != "environment":
                    raise
                self._end(module, error)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _end(self, module: ModuleType, error: ImportError) -> None:
        file, trace = module.__file__ or "", error.__traceback__
        lines = [
            line for frame, line in traceback.walk_tb(trace) if frame.f_code.co_filename == file
        ]
        reason = f"{type(error).__name__}: {first_line(error)}"
        note(f"`{self._place.shown(file)}` ends at its line {lines[0] if lines else 1}: {reason}")

        def lacking(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            full_name = f"{module.__name__}.{name}"
            if importlib.util.find_spec(full_name) is not None:
                return importlib.import_module(full_name)
            raise error.with_traceback(trace)

        module.__dict__["__getattr__"] = lacking
