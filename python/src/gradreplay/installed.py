"""What an interpreter has: the contents of its packages, the compilers of extensions, the driver of a
GPU, and the variables that change numbers.

`python -m gradreplay.installed NAME...` prints it as JSON for the facts that a capture has recorded, so
that both sides are read in one way. Frameworks are not imported for it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# In the place of a hash: the files lie in a working tree, and change without an installation.
EDITABLE = "editable"
# Enough to tell the builds of one version apart.
_DIGITS = 12


def contents(package: str) -> str | None:
    """Digits of a hash over the files of an installed package, or :data:`EDITABLE`; `None` where its
    installer has recorded no hashes."""
    try:
        found = importlib.metadata.distribution(package)
        if _is_editable(found.read_text("direct_url.json")):
            return EDITABLE
        return record_digits(found.read_text("RECORD") or "")
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return None


def record_digits(record: str) -> str | None:
    """Digits of a hash over the files in the text of a `RECORD`; `None` if it holds no hashes.

    What an installer writes itself is left out: scripts name their interpreter, and metadata the installer.
    Both are others in each environment."""
    files = []
    for line in record.splitlines():
        path, _, rest = line.rpartition(",")[0].rpartition(",")
        outside = path.startswith(("../", "/", '"../', '"/')) or ".dist-info/" in path
        if rest.startswith("sha256=") and not outside:
            files.append(f"{path} {rest}")
    if not files:
        return None
    return hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:_DIGITS]


def _is_editable(direct_url: str | None) -> bool:
    source = json.loads(direct_url) if direct_url else {}
    folder = source.get("dir_info") if isinstance(source, dict) else None
    return isinstance(folder, dict) and bool(folder.get("editable"))


# Compilers and driver


def compilers() -> dict[str, str]:
    """The compilers that PyTorch builds extensions with, by what they say of their version."""
    return {name: told for name in ("cxx", "nvcc") if (told := _TOOLS[name]()) is not None}


@functools.cache
def _cxx() -> str | None:
    words = shlex.split(os.environ.get("CXX") or "c++")
    lines = _printed([*words, "--version"]).splitlines()
    return lines[0].strip() if lines else None


@functools.cache
def _nvcc() -> str | None:
    found = re.search(r"release [\d.]+, V([\d.]+)", _printed(["nvcc", "--version"]))
    return found[1] if found else None


def _printed(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def driver() -> str | None:
    """The version of NVIDIA's driver."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", file.read())
    except OSError:
        return None
    return found[1] if found else None


def _cuda_of_torch() -> str | None:
    """The version of CUDA that the installed PyTorch was built for, by a file that is read alone."""
    try:
        found = importlib.util.find_spec("torch")
        origin = Path(found.origin) if found is not None and found.origin else Path()
        text = (origin.parent / "version.py").read_text()
    except (OSError, ValueError):
        return None
    version = re.search(r"^cuda\b[^=]*= *'([^']+)'", text, re.MULTILINE)
    return version[1] if version else None


# What an interpreter tells of without its packages.
_TOOLS: Mapping[str, Callable[[], str | None]] = {
    "cuda": _cuda_of_torch,
    "cxx": _cxx,
    "driver": driver,
    "nvcc": _nvcc,
}


# Variables

_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG", "KMP_DETERMINISTIC_REDUCTION", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS", "NCCL_ALGO", "NCCL_PROTO", "NPY_DISABLE_CPU_FEATURES", "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "XLA_FLAGS",
)  # fmt: skip
_BEGINNINGS = ("CUDNN_", "TORCHINDUCTOR_", "TRITON_")
# Places, machines and secrets are nobody's business, and change no number.
_LEFT_OUT = re.compile(r"_(DIR|HOME|HOST|PORT|URL|KEYS?|TOKENS?|SECRET|PASSWORD|AUTH|USER)(_|$)")


def deciding_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those variables that change what libraries compute, in the order of their names."""
    names = [
        name
        for name in environment
        if name in _VARIABLES or (name.startswith(_BEGINNINGS) and not _LEFT_OUT.search(name))
    ]
    return {name: environment[name] for name in sorted(names)}


def main(names: Sequence[str]) -> None:
    """Prints what it has of `names`, and all variables."""
    tools = {name: _TOOLS[name]() for name in names if name in _TOOLS}
    packages = {name: contents(name) for name in names if name not in _TOOLS}
    told = {
        "contents": {name: text for name, text in packages.items() if text is not None},
        "tools": {name: text for name, text in tools.items() if text is not None},
        "variables": deciding_variables(os.environ),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
