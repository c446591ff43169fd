"""What is told of an installation: digits of its contents, compilers, variables, and flags of frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradreplay import installed
from gradreplay.settings import settings

RECORD = """\
tiny/__init__.py,sha256=abc,10
tiny/core.so,sha256=def,20
"tiny/a,b.py",sha256=ghi,30
tiny/__pycache__/__init__.cpython-311.pyc,,
../../../bin/tiny,sha256=one,200
tiny-1.0.dist-info/INSTALLER,sha256=pip,4
tiny-1.0.dist-info/RECORD,,
"""


def distribution(folder: Path, name: str, **files: str) -> None:
    """An installed package in version 1.0."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, text in files.items():
        (info / file.replace("__", ".")).write_text(text)


def test_contents_are_those_of_the_wheel_whoever_installs_it_and_wherever() -> None:
    digits = installed.record_digits(RECORD)
    assert digits is not None and len(digits) == 12
    lines = RECORD.splitlines()
    assert installed.record_digits("\n".join(reversed(lines))) == digits
    elsewhere = RECORD.replace("sha256=one", "sha256=two").replace("sha256=pip", "sha256=uv")
    assert installed.record_digits(elsewhere) == digits
    for old, new in (("abc", "abx"), ("tiny/core", "tiny/more"), ("ghi", "ghj")):
        assert installed.record_digits(RECORD.replace(old, new)) != digits
    assert installed.record_digits("tiny/__init__.py,,\n") is None


def test_an_editable_installation_says_so_and_one_without_hashes_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = json.dumps({"url": "file:///src/mine", "dir_info": {"editable": True}})
    distribution(tmp_path, "mine", direct_url__json=source, RECORD=RECORD)
    copied = json.dumps({"url": "file:///src/copied", "dir_info": {}})
    distribution(tmp_path, "copied", direct_url__json=copied, RECORD=RECORD)
    distribution(tmp_path, "strange", direct_url__json="[]", RECORD=RECORD)
    distribution(tmp_path, "broken", direct_url__json="{", RECORD=RECORD)
    distribution(tmp_path, "bare")
    monkeypatch.syspath_prepend(str(tmp_path))
    digits = installed.record_digits(RECORD)
    names = ("mine", "copied", "strange", "broken", "bare", "gone")
    told = {name: installed.contents(name) for name in names}
    assert told == {
        "mine": "editable", "copied": digits, "strange": digits,
        "broken": None, "bare": None, "gone": None,
    }  # fmt: skip


def test_variables_that_change_numbers_are_told_and_no_secret_or_place() -> None:
    kept = {
        "CUDNN_X": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "TRITON_F32_DEFAULT": "ieee",
        "XLA_FLAGS": "--a",
    }
    left_out = (
        "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_REDIS_HOST", "TRITON_API_KEY", "TRITON_TOKEN_X",
        "TORCHINDUCTOR_CACHE_DIR", "HF_TOKEN", "HOME", "XLA_FLAGS_OF_MINE",
    )  # fmt: skip
    assert installed.deciding_variables({**dict.fromkeys(left_out, "x"), **kept}) == kept


def test_the_module_tells_of_packages_compilers_and_variables_as_json(tmp_path: Path) -> None:
    distribution(tmp_path, "tiny", RECORD=RECORD)
    (tmp_path / "nvcc").write_text(
        '#!/bin/sh\necho "Cuda compilation tools, release 12.4, V12.4.131"\n'
    )
    (tmp_path / "my-c++").write_text('#!/bin/sh\necho "my c++ $1 1.0"; echo more\n')
    for name in ("nvcc", "my-c++"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('frameworks are not imported')")
    (tmp_path / "torch/version.py").write_text("cuda: Optional[str] = '13.0'\n")
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": f"{tmp_path}:{Path(installed.__file__).parents[1]}",
        "CXX": "my-c++ -m64",
        "MKL_CBWR": "AVX2",
    }
    command = [sys.executable, "-m", "gradreplay.installed", "tiny", "gone", "cuda", "cxx", "nvcc"]
    told = json.loads(
        subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    )
    assert told == {
        "contents": {"tiny": installed.record_digits(RECORD)},
        "tools": {"cuda": "13.0", "cxx": "my c++ -m64 1.0", "nvcc": "12.4.131"},
        "variables": {"MKL_CBWR": "AVX2"},
    }
    without = {**environment, "PATH": str(tmp_path / "none"), "CXX": "no-such-compiler"}
    told = json.loads(subprocess.run(command, env=without, check=True, capture_output=True).stdout)
    assert told["tools"] == {"cuda": "13.0"}


class OlderFlag:
    """A flag that cannot be read any more."""

    @property
    def allow_tf32(self) -> bool:
        raise RuntimeError("a mix of the legacy and the new API")


def test_flags_are_those_that_a_version_has_and_lets_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"NCCL_ALGO": "Ring"})
    matmul: Any = SimpleNamespace(allow_tf32=True)
    backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
    torch = SimpleNamespace(backends=backends, get_default_dtype=lambda: "torch.bfloat16")
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert settings("torch", "cuda:0") == {
        "torch.get_default_dtype()": "torch.bfloat16",
        "torch.backends.cuda.matmul.allow_tf32": "true",
        "NCCL_ALGO": "Ring",
    }
    backends.cuda.matmul = OlderFlag()
    assert "torch.backends.cuda.matmul.allow_tf32" not in settings("torch", "cuda:0")
    backends.cuda.matmul.fp32_precision = "ieee"
    assert settings("torch", "cuda:0")["torch.backends.cuda.matmul.fp32_precision"] == "ieee"
    # Of a call on the CPU those of CUDA do not count.
    assert list(settings("torch", "cpu")) == ["torch.get_default_dtype()", "NCCL_ALGO"]
    monkeypatch.delitem(sys.modules, "torch")
    assert settings("torch", "cpu") == settings("numpy", "cpu") == {"NCCL_ALGO": "Ring"}
