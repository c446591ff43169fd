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
    """The way to `function`, or to `import_as` as in `package.module:name`.

    Of an operator `import_as` names the module that registers it."""
    if type(function).__module__.startswith("torch._ops"):
        return _operator(str(function), import_as)
    if import_as is not None:
        module, _, name = import_as.partition(":")
        return _of(module, name or getattr(function, "__name__", "function"), None)
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    qualname = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", ""))
    if _leads_to(function, module, qualname):
        return _of(module, qualname, None)
    found = _variable(function)
    if found is not None:
        return _of(*found, None)
    problem = f"`{qualname or function!r}` has no name that another process can import"
    return _of(module, qualname.rpartition(".")[2].strip("<>") or "function", problem)


def _leads_to(function: Any, module: str, qualname: str) -> bool:
    """Whether a function has the name that it says it has.

    The training may have put something else there, such as what captures it."""
    if "<" in qualname or not qualname:
        return False
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is not None and found is not type(function)


@dataclass(frozen=True)
class Named:
    """A class, a function or another object that a module holds, as another process imports it."""

    module: str
    qualname: str
    # As of a `Target`.
    folder: str | None


# Those that were found, by the objects' numbers; modules hold the objects as long as this.
_named: dict[int, tuple[Any, Named]] = {}


def find_named(value: Any) -> Named | None:
    """The module and name that lead to an object itself; `None` if none do."""
    known = _named.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    found = _public(value) or _variable(value)
    if found is None:
        return None
    name, file = _module(found[0])
    named = Named(name, found[1], _folder(name, file, _repository(file)))
    _named[id(value)] = value, named
    return named


def _public(value: Any) -> tuple[str, str] | None:
    """The most public of the modules of its package that hold an object under its own name."""
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    package = module.partition(".")[0]
    found = [
        (name, qualname)
        for name in list(sys.modules)
        if name.partition(".")[0] == package and _is_at(value, name, qualname)
    ]
    own = (module, qualname)
    is_hidden = any(part.startswith("_") for part in module.split("."))
    return own if own in found and not is_hidden else min(found, key=_obscurity, default=None)


def _is_at(value: Any, module: str, qualname: str) -> bool:
    """Whether a name leads to an object, or to what wraps it, as capturing does."""
    found: Any = sys.modules.get(module)
    try:
        for part in qualname.split("."):
            found = getattr(found, part, None)
        wrapped = getattr(found, "__wrapped__", None)
    except Exception:
        # Some modules make what they are asked for, as `torch.classes` does, and fail.
        return False
    return found is not None and (found is value or wrapped is value)


def _variable(function: Any) -> tuple[str, str] | None:
    """The module and the name of a variable that holds a function whose own name leads nowhere, as of those
    that compiled extensions hold, or that TorchScript and `functools.partial` make."""
    found = []
    for module, loaded in list(sys.modules.items()):
        # The program's own variables may hold what they have from elsewhere.
        own = module in ("__main__", "__mp_main__") or module.startswith("gradreplay")
        if own or getattr(loaded, "__file__", None) is None:
            continue
        for name, value in list(vars(loaded).items()):
            if value is function and not name.startswith("__"):
                found.append((module, name))
    return min(found, key=_obscurity, default=None)


def _obscurity(variable: tuple[str, str]) -> tuple[bool, int, str]:
    module, name = variable
    hidden = any(part.startswith("_") for part in f"{module}.{name}".split("."))
    return hidden, module.count("."), module


def _operator(text: str, import_as: str | None) -> Target:
    """The way to an operator of torch.library: `ns.name`, or `ns.name.overload`."""
    expression = f"torch.ops.{text}"
    module = import_as.partition(":")[0] if import_as else _registering(text)
    if module is not None:
        name, file = _module(module)
        where = _repository(file)
        root = where.root if where else None
        return Target(f"import torch, {name}", expression, _folder(name, file, where), root)
    where = repository(Path.cwd())
    problem = None
    if not text.startswith(("aten.", "prims.", "prim.")):
        problem = "the module that registers the operator is not known: import it here"
    return Target("import torch", expression, None, where.root if where else None, problem)


def _registering(text: str) -> str | None:
    """The module whose function an operator was made of by `torch.library.custom_op`."""
    made: Any = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    namespace, name = text.split(".")[:2]
    definition = made.get(f"{namespace}::{name}")
    return str(definition._init_fn.__module__) if definition is not None else None


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
