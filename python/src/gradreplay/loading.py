"""Changes to modules of others, made when they are loaded."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Change = Callable[[Any], None]


def when_loaded(module: str, change: Change) -> None:
    """Calls `change` with a module, now or when it is imported."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        change(loaded)
        return
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.changes.setdefault(module, []).append(change)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as others do, and changes them once they are loaded."""

    def __init__(self) -> None:
        self.changes: dict[str, list[Change]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                for change in self.changes[name]:
                    change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
