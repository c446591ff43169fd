"""What the documents of the program have in common: their text, their page, their rows."""

from __future__ import annotations

import html
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from .errors import ErrorText, ReplayError


@dataclass(frozen=True)
class Shown:
    """What the program wrote besides the document, in the same run."""

    text: str
    page: str | None
    exit_code: int


class Report:
    """A result. It prints as the program does, and a notebook shows its page."""

    _shown: Shown

    @property
    def exit_code(self) -> int:
        """The exit code of the program: 0, 1 or 125 (docs/exit-codes.md)."""
        return self._shown.exit_code

    @property
    def ok(self) -> bool:
        """Whether nothing diverged, nothing failed, and nothing was untestable."""
        return self.exit_code == 0

    @property
    def page(self) -> str | None:
        """The page in HTML; `None` where it was not asked for."""
        return self._shown.page

    def __str__(self) -> str:
        return self._shown.text.rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if self.page is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        return framed(self.page)

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """The rows of the result as a DataFrame of pandas or polars, whichever is installed.

        A row is an output of a fixture; of a log a changed output, of a search a tested commit, of a check
        of gradients a gradient, of a series a tensor of a step, of an inspection an input, of a cut fixture
        a size."""
        rows = list(_rows(self))
        columns = list(dict.fromkeys(key for row in rows for key in row))
        data = {column: [row.get(column) for row in rows] for column in columns}
        module: Any = _frames(library)
        if module.__name__ == "polars":
            return module.DataFrame(data, strict=False)
        return module.DataFrame(data, columns=columns)


def framed(page: str) -> str:
    """A page inside of another one, which neither its styles nor its scripts reach."""
    style = "width: 100%; height: 40em; border: 0; resize: vertical; overflow: auto"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _frames(library: str | None) -> Any:
    for name in (library,) if library else ("pandas", "polars"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    message = f"{library or 'neither pandas nor polars'} is {'not ' if library else ''}installed"
    raise ReplayError([ErrorText(message, hints=(f"pip install {library or 'pandas'}",))])


# The lists whose elements are rows, by the type of what holds them. Its other fields stand in each row.
_ROWS: Mapping[str, str] = {
    "Replays": "replays",
    "Replay": "outputs",
    "Diffs": "diffs",
    "Diff": "outputs",
    "Gradchecks": "gradchecks",
    "Gradcheck": "gradients",
    "Log": "changes",
    "Change": "outputs",
    "Series": "steps",
    "Step": "tensors",
    "Inspection": "fixtures",
    "RecordedEnvironments": "fixtures",
    "RecordedFacts": "versions",
    "Inspected": "inputs",
    "Search": "tested",
    "Shrinking": "sizes",
    "StepReport": "parts",
}

# Fields of the document that say nothing of a row.
_LEFT_OUT = {"schema", "run", "event", "printed", "text"}


def _rows(value: Any) -> list[dict[str, Any]]:
    """The rows of a value: its own numbers and words once for each row of what it holds."""
    held = _ROWS.get(type(value).__name__)
    own = {} if isinstance(value, Report) else _scalars(value, but=held)
    if held is None:
        return [own]
    inner = [row for element in getattr(value, held) for row in _rows(element)]
    if not inner and not isinstance(value, Report):
        return [own]
    # An element's own name for a thing wins, and that of what holds it gets a name before it.
    prefix = type(value).__name__.lower()
    return [
        {f"{prefix}_{key}" if key in row else key: item for key, item in own.items()} | row
        for row in inner
    ]


def _scalars(value: Any, but: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        name = field.metadata.get("json", field.name)
        if name in _LEFT_OUT or name == but:
            continue
        if item is None or isinstance(item, (str, int, float, bool)):
            found[name] = item
        elif name == "dims":
            found["shape"] = str([dim.size for dim in item])
        elif is_dataclass(item):
            inner = _scalars(item, None)
            found.update({f"{name}_{key}": part for key, part in inner.items()})
    return found
