"""How a replay reaches the function that was captured: module, name and folder of the repository."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .provenance import Repository, repository


@dataclass(frozen=True)
class Target:
    """A function as a script of another process finds it."""

    # The statement that imports it, and the expression that then means it.
    statement: str
    expression: str
    # The folder, from the repository's root, in which the import begins; `None` if it is not of it.
    folder: str | None
    repository: Path | None
    # Why another process cannot find it.
    problem: str | None = None


def find(function: Any, import_as: str | None) -> Target:
    """The way to `function`, or to `import_as` as in `package.module:name`."""
    if import_as is not None:
        module, _, name = import_as.partition(":")
        return _of(module, name or getattr(function, "__name__", "function"), None)
    text = str(function) if type(function).__module__.startswith("torch._ops") else ""
    if text:
        return _operator(text)
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    qualname = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", ""))
    problem = None
    if "<" in qualname or not qualname:
        problem = f"`{qualname or function!r}` has no name that another process can import"
        qualname = qualname.rpartition(".")[2].strip("<>") or "function"
    return _of(module, qualname, problem)


def _operator(text: str) -> Target:
    # An operator of torch.library: `ns.name`, or `ns.name.overload`.
    expression = f"torch.ops.{text}"
    where = repository(Path.cwd())
    problem = "the module that registers the operator is not known: import it here"
    return Target("import torch", expression, None, where.root if where else None, problem)


def _of(module: str, qualname: str, problem: str | None) -> Target:
    name, file = _module(module)
    statement = f"from {name} import {qualname.partition('.')[0]}"
    where = _repository(file)
    folder = _folder(name, file, where)
    return Target(statement, qualname, folder, where.root if where else None, problem)


def _module(module: str) -> tuple[str, Path | None]:
    """The name by which another process imports a module, and its file."""
    loaded: Any = sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    file = Path(path).resolve() if path else None
    if module != "__main__":
        return module, file
    spec = getattr(loaded, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name), file
    return (file.stem if file else "__main__"), file


def _repository(file: Path | None) -> Repository | None:
    # A library's function is called by a program that lies in one.
    return (repository(file.parent) if file is not None else None) or repository(Path.cwd())


def _folder(name: str, file: Path | None, where: Repository | None) -> str | None:
    if file is None or where is None:
        return None
    depth = name.count(".") + (1 if file.stem == "__init__" else 0)
    start = file.parents[depth]
    root = where.root.resolve()
    return str(start.relative_to(root)) if start.is_relative_to(root) else None
