"""What capturing wrote, read without the code that wrote it where that can be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from gradreplay import tensors
from gradreplay.capture import flush


def inspect(program: str, *fixtures: str | Path) -> subprocess.CompletedProcess[str]:
    """What `replay inspect` says."""
    command = [program, "inspect", *map(str, fixtures)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def header(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The entries and the metadata of a safetensors file, read without the package."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
    return entries, entries.pop("__metadata__", {})


def array(path: str | Path, name: str) -> np.ndarray[Any, Any]:
    """A tensor of a file, packed."""
    return tensors.read(path)[name].array()


def names(folder: str | Path = "fixtures") -> list[str]:
    """The fixtures in a folder."""
    flush()
    home = Path(folder)
    return sorted(path.parent.name for path in home.glob("*/fixture.toml"))
