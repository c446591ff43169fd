"""What a drafted harness names of a training's surroundings: its interpreter, and part of the repository."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from ..faults import INSTALLED
from . import provenance

# Where modules lie that are of no repository. Resolving the paths of hundreds takes longer than all else.
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")


def interpreter() -> str:
    """The interpreter of a virtual environment by its path; else the one that a shell finds."""
    is_virtual = sys.prefix != sys.base_prefix or os.environ.get("CONDA_PREFIX") == sys.prefix
    return sys.executable if is_virtual and sys.executable else "python3"


def loaded_tree(root: Path, needed: tuple[str, ...]) -> tuple[str, ...]:
    """The packages and modules of a repository that this process has loaded, as paths from its root.

    The training's own script is left out, unless it is among the modules that are `needed`. Files that git
    does not track are of no revision, and neither is what is installed into an environment inside of it."""
    root = root.resolve()
    files = {
        name: getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name not in ("__main__", "__mp_main__")
    }
    if _SCRIPT[0] in needed:
        files[_SCRIPT[0]] = _SCRIPT[1]
    found = set()
    for name, file in files.items():
        path = _top(name, file)
        if path is not None and path.is_relative_to(root):
            found.add(path.relative_to(root).as_posix())
    tracked = provenance.tracked(root, tuple(sorted(found)))
    return tuple(path for path in sorted(found) if path in tracked)


def _script() -> tuple[str, str | None]:
    """The training's own script: the name by which it is imported, and its file."""
    module = sys.modules.get("__main__")
    file = getattr(module, "__file__", None)
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name), file
    return (Path(file).stem if file else "__main__"), file


# Known from the beginning: while a process ends its script forgets its file.
_SCRIPT = _script()


def _top(name: str, file: object) -> Path | None:
    """The outermost package that a module lies in, or its file."""
    if not isinstance(file, str):
        return None
    place = os.path.abspath(file)
    if place.startswith(_STANDARD) or any(folder in place for folder in INSTALLED):
        return None
    path = Path(place).resolve()
    depth = name.count(".") + (1 if path.stem == "__init__" else 0)
    return path.parents[depth - 1] if 0 < depth <= len(path.parents) else path
