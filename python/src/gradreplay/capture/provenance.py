"""Where captured tensors come from: step, seed, commit, command, framework, device, versions and settings."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import installed
from ..settings import settings

# The value of a key; of `versions`, `hashes` and `settings`, a table.
Fact = str | int | bool | Mapping[str, str]


@dataclass(frozen=True)
class Repository:
    """The git repository that a program lies in."""

    root: Path
    commit: str | None
    dirty: bool


@functools.cache
def repository(folder: Path) -> Repository | None:
    """The repository around `folder`, asked for once; `None` without one, or without git."""
    root = _git(folder, "rev-parse", "--show-toplevel")
    if not root:
        return None
    commit = _git(folder, "rev-parse", "--verify", "-q", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return Repository(Path(root), commit or None, bool(status))


def uncommitted() -> bytes:
    """What tracked files of the repository around this folder have beyond the commit, as a diff.

    A long one is cut after a line, and says so."""
    where = repository(Path.cwd())
    return _diff(where.root) if where is not None and where.dirty else b""


@functools.cache
def _diff(root: Path) -> bytes:
    diff = _git_bytes(root, "diff", "--no-color", "--no-ext-diff", "HEAD") or b""
    if len(diff) <= _MOST_DIFF:
        return diff
    kept = diff[: diff.rfind(b"\n", 0, _MOST_DIFF) + 1]
    return kept + f"# Cut here: {len(diff) - len(kept)} bytes more.\n".encode()


# The most bytes of a diff that stand beside each fixture.
_MOST_DIFF = 1 << 16


@functools.cache
def tracked(root: Path, paths: tuple[str, ...]) -> frozenset[str]:
    """Those of `paths` at or below which git tracks a file."""
    listed = _git_bytes(root, "ls-files", "-z", "--", *paths) if paths else None
    files = [os.fsdecode(name) for name in (listed or b"").split(b"\0")]
    return frozenset(
        path for path in paths if any(f"{file}/".startswith(f"{path}/") for file in files)
    )


def _git(folder: Path, *arguments: str) -> str | None:
    told = _git_bytes(folder, *arguments)
    return os.fsdecode(told).strip() if told is not None else None


def _git_bytes(folder: Path, *arguments: str) -> bytes | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


@functools.cache
def command_line() -> str:
    """The command of this process, as a shell would read it."""
    return shlex.join(getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv])


@functools.cache
def versions(framework: str, device: str) -> Mapping[str, str]:
    """The versions of Python, the framework and what lies below it, down to the driver of a GPU.

    Those of the other packages that this process has imported come behind them, and the compilers of
    extensions, where it may have built some."""
    packages = {
        "torch": ["torch", "triton", "numpy"],
        "jax": ["jax", "jaxlib", "numpy"],
    }.get(framework, ["numpy"])
    known = {"python": platform.python_version()}
    for package in [
        *packages,
        *_imported_packages(),
        *([] if device.endswith("cpu") else _gpu_libraries()),
    ]:
        version = _version(package)
        if version is not None:
            known.setdefault(package, version)
    if any(module in sys.modules for module in _BUILDERS):
        known |= installed.compilers()
    if not device.endswith("cpu"):
        below = {"cuda": _cuda(framework), "cudnn": _cudnn(framework), "driver": installed.driver()}
        known |= {name: version for name, version in below.items() if version is not None}
    return known


# With these modules PyTorch compiles code of the user's, or its own.
_BUILDERS = ("torch.utils.cpp_extension", "torch._inductor.codecache")


@functools.cache
def hashes(framework: str, device: str) -> Mapping[str, str]:
    """What identifies the files of the packages in :func:`versions`."""
    known = {package: installed.contents(package) for package in versions(framework, device)}
    return {package: text for package, text in known.items() if text is not None}


def _imported_packages() -> list[str]:
    """The installed packages of which this process has imported a module, in the order of their names."""
    packages = importlib.metadata.packages_distributions()
    modules = {name.partition(".")[0] for name in sys.modules}
    return sorted({package for module in modules for package in packages.get(module, ())})


def _gpu_libraries() -> list[str]:
    """The installed packages with NVIDIA's libraries that compute: frameworks load their files alone."""
    names = {str(found.metadata["Name"]) for found in importlib.metadata.distributions()}
    return sorted(name for name in names if _GPU_LIBRARY.match(name))


_GPU_LIBRARY = re.compile("nvidia-(cublas|cuda-nvrtc|cudnn|cufft|curand|cusolver|cusparse|nccl)")


def _cuda(framework: str) -> str | None:
    """The version of CUDA that a framework was built for."""
    if framework == "torch":
        return getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    jax: Any = sys.modules.get("jax")
    try:
        told = jax.devices()[0].client.platform_version
    except (AttributeError, IndexError, RuntimeError):
        return None
    found = re.search(r"cuda (\d+)", told)
    # 12090 is 12.9.
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def _cudnn(framework: str) -> str | None:
    """The version of cuDNN that PyTorch has loaded."""
    torch: Any = sys.modules.get("torch")
    if framework != "torch" or torch is None:
        return None
    try:
        number = torch.backends.cudnn.version()
    except (AttributeError, RuntimeError):
        return None
    return str(number) if number is not None else None


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def device_name(framework: str, device: str) -> str:
    """What a device is: the name of a GPU, the machine's processor for `cpu`."""
    if device.startswith("cuda"):
        torch: Any = sys.modules.get("torch")
        if framework == "torch" and torch is not None:
            return f"{torch.cuda.get_device_name(device)} ({device})"
        return device
    return _processor() if device == "cpu" else device


@functools.cache
def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return f"{line.partition(':')[2].strip()} (cpu)"
    except OSError:
        pass
    return f"{platform.machine()} (cpu)"


def seed(framework: str) -> int | None:
    """The seed that the framework's generator was given, where it tells."""
    torch: Any = sys.modules.get("torch")
    return int(torch.initial_seed()) if framework == "torch" and torch is not None else None


def rank() -> int:
    """The number of this process among those of the training."""
    return _of_processes("get_rank", "process_index", "RANK", 0)


def world() -> int:
    """How many processes train together."""
    return max(_of_processes("get_world_size", "process_count", "WORLD_SIZE", 1), 1)


# What launchers call a run, the same for all its processes.
_RUN = (
    "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "SLURM_JOB_ID",
    "SLURM_STEP_ID", "PMIX_NAMESPACE",
)  # fmt: skip


def run() -> str:
    """The run that this process belongs to, as far as its launcher has named it."""
    return " ".join(f"{name}={os.environ[name]}" for name in _RUN if name in os.environ)


def _of_processes(in_torch: str, in_jax: str, variable: str, otherwise: int) -> int:
    """What the framework that several processes train with says, else their environment."""
    torch: Any = sys.modules.get("torch")
    if (
        torch is not None
        and torch.distributed.is_available()
        and torch.distributed.is_initialized()
    ):
        return int(getattr(torch.distributed, in_torch)())
    jax: Any = sys.modules.get("jax")
    if jax is not None and _jax_is_distributed(jax):
        return int(getattr(jax, in_jax)())
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise


def _jax_is_distributed(jax: Any) -> bool:
    # `process_index` starts the backend, which a program may not have wanted yet.
    distributed = getattr(jax, "distributed", None)
    asks = getattr(distributed, "is_initialized", None)
    return bool(asks and asks())


def facts(framework: str, device: str, step: int, given_seed: int | None) -> dict[str, Fact]:
    """The `[provenance]` of a fixture."""
    known: dict[str, Fact] = {"step": step}
    number = given_seed if given_seed is not None else seed(framework)
    if number is not None:
        # TOML's integers have 64 bits, and a sign.
        known["seed"] = number if number < 2**63 else str(number)
    where = repository(Path.cwd())
    if where is not None and where.commit is not None:
        known["commit"] = where.commit
        known["dirty"] = where.dirty
    known["command"] = command_line()
    known["framework"] = framework
    known["device"] = device_name(framework, device)
    known["versions"] = versions(framework, device)
    known["hashes"] = hashes(framework, device)
    known["settings"] = settings(framework, device)
    return known
