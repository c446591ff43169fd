"""What a drafted script imports to write the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .target import find_named


@dataclass(frozen=True)
class Imported:
    """The imports of one script."""

    statements: tuple[str, ...] = ()
    # The folders of the repository in which they begin.
    folders: tuple[str, ...] = ()

    def joined(self, more: Imported) -> Imported:
        """These, and those of another part of the script."""
        return Imported(
            tuple(dict.fromkeys((*self.statements, *more.statements))),
            tuple(dict.fromkeys((*self.folders, *more.folders))),
        )


@dataclass
class Imports:
    """Imports, and the names that they give."""

    # Makes a name that nothing else in the script has.
    give_name: Callable[[str], str]
    # Whole modules, as statements.
    _modules: list[str] = field(default_factory=list)
    _folders: list[str] = field(default_factory=list)
    # By module and name there.
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def framework(self, module: str, alias: str | None = None) -> None:
        """Imports a module under its own name, or one that inputs cannot have."""
        statement = f"import {module} as {alias}" if alias else f"import {module}"
        if statement not in self._modules:
            self._modules.append(statement)

    def expression(self, value: Any) -> str | None:
        """What means a class or a function in the script; `None` if no name leads to it."""
        found = find_named(value)
        if found is None:
            return None
        self._add_folder(found.folder)
        return self.attribute(found.module, found.qualname)

    def attribute(self, module: str, qualname: str) -> str:
        """What means a name of a module in the script."""
        first, dot, rest = qualname.partition(".")
        name = self._names.get((module, first))
        if name is None:
            name = self._names[module, first] = self.give_name(first)
        return f"{name}{dot}{rest}"

    def _add_folder(self, folder: str | None) -> None:
        if folder is not None and folder not in self._folders:
            self._folders.append(folder)

    def done(self) -> Imported:
        """All of them."""
        names: dict[str, list[str]] = {}
        for (module, first), name in self._names.items():
            text = first if name == first else f"{first} as {name}"
            names.setdefault(module, []).append(text)
        statements = [f"from {module} import {', '.join(found)}" for module, found in names.items()]
        return Imported((*self._modules, *statements), tuple(self._folders))
