"""Drafts the harness of a captured function: `replay.toml` and the script that it runs.

A harness is drafted once and is then the user's: a file that is there stays, unless it was drafted before
the function had returned. Calls that need another harness get one beside it, with a number.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import disk, surroundings
from .errors import CaptureError

Shape = tuple[str | int, ...]

# The file of a harness that calls the function.
SCRIPT = "replay_step.py"


@dataclass(frozen=True)
class Input:
    """An `[inputs.NAME]`."""

    name: str
    dtype: str
    shape: Shape
    optional: bool = False


@dataclass(frozen=True)
class Output:
    """An `[outputs.NAME]`."""

    name: str
    dtype: str
    shape: Shape
    gradient_of: str | None = None
    # The outputs into which gradients flow, and the upstream gradients by which they do.
    of: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A harness to be drafted."""

    title: str
    framework: str
    repository: Path | None
    # What the call is told and holds; a harness fits only calls of which this is the same.
    call: Hashable
    inputs: tuple[Input, ...]
    upstream: tuple[Input, ...]
    outputs: tuple[Output, ...]
    script: Callable[[], str]
    # The files and folders of a revision that the script needs; none where all of it is laid out.
    tree: Callable[[], tuple[str, ...]]
    # Whether the function has returned, so that its outputs are known.
    returned: bool

    def head(self) -> str:
        """The first line of the drafted file, which says what it fits."""
        call = digest((self.call, self.inputs))
        results = digest((self.upstream, self.outputs)) if self.returned else _UNKNOWN
        return f"# Drafted for call {call}, results {results}. It is yours now."


_UNKNOWN = "unknown"
_HEAD = re.compile(r"# Drafted for call (\w+), results (\w+)\.")


# Calls of one function are mostly alike.
@functools.lru_cache(maxsize=1024)
def digest(told: Hashable) -> str:
    """A short text that stands for what is told."""
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def place(folder: Path, name: str, plan: Plan) -> Path:
    """The harness of `plan` among those called `name` in `folder`: found there, or written.

    Raises :class:`OSError` where it cannot be written."""
    asked = os.path.join(os.getcwd(), folder, name), plan.head()
    known = _placed.get(asked)
    # Who deletes a harness has another drafted.
    if known is None or not os.path.exists(known):
        known = _placed[asked] = _place(folder, name, plan)
    return known


# The harnesses that calls of this process fitted, by folder and name, and by what was asked for.
_placed: dict[tuple[str, str], Path] = {}


def _place(folder: Path, name: str, plan: Plan) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may draft one in this moment.
    with disk.locked(folder):
        number = 1
        while True:
            home = folder / (f"harness-{name}" if number == 1 else f"harness-{name}-{number}")
            path = home / "replay.toml"
            fit = _fits(path, plan)
            if fit == "write":
                _write(home, plan)
            if fit != "other":
                return path
            number += 1


def _fits(path: Path, plan: Plan) -> str:
    """Whether the harness at `path` is as planned (`keep`), may be written (`write`), or is an `other`."""
    try:
        with open(path, "rb", buffering=0) as file:
            found = _HEAD.match(file.read(256).decode(errors="replace"))
    except FileNotFoundError:
        return "write"
    wanted = _HEAD.match(plan.head())
    if found is None or wanted is None or found[1] != wanted[1]:
        return "other"
    if wanted[2] in (_UNKNOWN, found[2]):
        return "keep"
    return "write" if found[2] == _UNKNOWN else "other"


def _write(home: Path, plan: Plan) -> None:
    home.mkdir(parents=True, exist_ok=True)
    script, harness = plan.script().encode(), toml(plan, home).encode()
    disk.put(home, {SCRIPT: [script], "replay.toml": [harness]}, above=[home.parent])


_encode = json.JSONEncoder(ensure_ascii=False).encode


def text(value: str) -> str:
    """A text as TOML writes it."""
    return _encode(value).replace("\x7f", "\\u007f")


def toml(plan: Plan, home: Path) -> str:
    """The text of `replay.toml` in the folder `home`."""
    lines = [plan.head(), f"# {plan.title}"]
    if not plan.returned:
        lines.append(
            "# The function had not returned, so that its outputs are not known: name them below."
        )
    if plan.repository is None:
        lines.append("# The function lies in no git repository: name the one to search, as in")
        lines.append('# repository = "../../project"')
    else:
        relative = os.path.relpath(plan.repository.resolve(), home.resolve())
        lines.append(f"repository = {text(relative)}")
    lines.append(f"program = [{text(surroundings.interpreter())}, {text(SCRIPT)}]")
    tree = plan.tree()
    if tree:
        lines.append("# What the training had loaded. Add what the function reads besides.")
        lines.append(f"tree = [{', '.join(map(text, tree))}]")
    if plan.framework in ("torch", "jax"):
        lines.append(f"preload = [{text(plan.framework)}]")
    for tensor in plan.inputs + plan.upstream:
        lines += ["", f"[inputs.{tensor.name}]", f"dtype = {text(tensor.dtype)}"]
        lines.append(f"shape = {_shape(tensor.shape)}")
        if tensor.optional:
            lines.append("optional = true")
    for output in plan.outputs:
        lines += ["", f"[outputs.{output.name}]", f"dtype = {text(output.dtype)}"]
        lines.append(f"shape = {_shape(output.shape)}")
        if output.gradient_of is not None:
            lines.append(f"gradient_of = {text(output.gradient_of)}")
        for key, names in (("of", output.of), ("upstream", output.upstream)):
            if names:
                lines.append(f"{key} = {_one_or_list(names)}")
    return "\n".join(lines) + "\n"


def _one_or_list(names: Sequence[str]) -> str:
    return text(names[0]) if len(names) == 1 else f"[{', '.join(map(text, names))}]"


def _shape(shape: Shape) -> str:
    return f"[{', '.join(text(size) if isinstance(size, str) else str(size) for size in shape)}]"


def names_of(given: str | tuple[str | int, ...] | list[str | int], tensor: str) -> Shape:
    """The sizes that a user names, as in `"batch seq"` or `("batch", "seq")`."""
    parts = given.split() if isinstance(given, str) else list(given)
    sizes = [int(part) if isinstance(part, str) and part.isdecimal() else part for part in parts]
    for size in sizes:
        if isinstance(size, str) and not size.isidentifier():
            raise CaptureError(
                f"shapes names a size `{size}` of `{tensor}`, which is no identifier"
            )
    return tuple(sizes)
