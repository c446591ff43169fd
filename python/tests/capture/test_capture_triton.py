"""Triton: launches, run by its interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from written import array, header, names

from gradreplay import capture, tensors

pytest.importorskip("torch")
pytest.importorskip("triton")

KERNELS = """
import triton, triton.language as tl

@triton.jit
def add(x, y, out, n, y_stride, scale, ACC: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    value = tl.load(x + places, mask=inside) + scale * tl.load(y + y_stride * places, mask=inside)
    value = value.to(ACC)
    tl.store(out + places, value, mask=inside)

"""

TRAINING = """
import torch, triton, triton.language as tl, kernels
from gradreplay import capture
capture.triton(kernels.add)
x, y = torch.arange(10.), torch.ones(20)[::2]
for step in range(3):
    out = torch.zeros(10)
    with capture.step("fixtures/step{step}", step=step, when=capture.first(2), strict=True):
        grid = lambda meta: (triton.cdiv(10, meta["BLOCK"]),)
        kernels.add[grid](x, y, out, 10, 2, 0.5, tl.float32, BLOCK=tl.constexpr(4), num_warps=2)
    assert out.tolist() == (x + 0.5 * torch.ones(10)).tolist()
"""


def python(*arguments: str, **variables: str) -> None:
    """Runs Python in the current folder with Triton's interpreter; it must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"TRITON_INTERPRET": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr


def test_a_launch_is_a_fixture_that_the_drafted_script_replays() -> None:
    Path("kernels.py").write_text(KERNELS)
    Path("train.py").write_text(TRAINING)
    python("train.py")
    assert names() == ["step0", "step1"]
    entries, metadata = header("fixtures/step0/inputs.safetensors")
    assert {name: entry["dtype"] for name, entry in entries.items()} == {
        "x": "F32", "y": "F32", "out": "F32", "n": "I64", "y_stride": "I64", "scale": "F64",
    }  # fmt: skip
    assert metadata["y.strides"] == "[2]"
    assert array("fixtures/step0/inputs.safetensors", "out").tolist() == [0] * 10
    after = array("fixtures/step0/expected.safetensors", "out_after")
    assert after.tolist() == [x + 0.5 for x in range(10)]
    script = Path("fixtures/harness-add/replay_step.py").read_text()
    numbers = "n=int(n), y_stride=int(y_stride), scale=float(scale)"
    constants = "ACC=triton.language.float32, BLOCK=4"
    assert f"add[(3,)](x=x, y=y, out=out, {numbers}, {constants}, num_warps=2)" in script
    python(
        "fixtures/harness-add/replay_step.py",
        REPLAY_PROTOCOL="1",
        REPLAY_INPUTS=str(Path("fixtures/step0/inputs.safetensors").resolve()),
        REPLAY_OUTPUTS=str(Path("outputs").resolve()),
        REPLAY_ANSWER=str(Path("answer.json").resolve()),
        REPLAY_TREE=str(Path(".").resolve()),
        REPLAY_PRECISION="native",
        REPLAY_ROUNDING="nearest",
        REPLAY_SURROUNDINGS="none",
        REPLAY_DEVICE="cpu",
        REPLAY_THREADS="1",
    )
    assert tensors.read("outputs")["out_after"].data.tobytes() == after.tobytes()


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(capture.CaptureError, match="a function is not a Triton kernel"):
        capture.triton(lambda x: x)


SOFTCAP = """
import triton, triton.language as tl
from triton.language.extra.libdevice import tanh

SHARED_MEMORY = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
exp = tl.exp

@triton.autotune([triton.Config({"BLOCK": size}) for size in (4, 8)], key=["n"])
@triton.jit
def kernel(x, out, n, cap, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + places, mask=places < n)
    tl.store(out + places, exp(cap * tanh(value / cap)), mask=places < n)

def softcap(x, cap):
    assert x.is_cuda and SHARED_MEMORY > 0
    out = x.new_empty(x.shape)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), cap)
    return out
"""

SOFTCAP_TRAINING = """
from gradreplay import capture
import torch, softcaps
softcap = capture.function(softcaps.softcap, name="softcap")
x = torch.linspace(-3, 3, 10)
with capture.step("fixtures/step{step}", step=0, when=capture.first(1), strict=True):
    result = softcap(x, 2.0)
assert torch.allclose(result, torch.exp(2 * torch.tanh(x / 2)))
"""


def test_a_training_interprets_what_a_replay_interprets() -> None:
    Path("softcaps.py").write_text(SOFTCAP)
    Path("train.py").write_text(SOFTCAP_TRAINING)
    python("train.py")
    assert array("fixtures/step0/expected.safetensors", "out").shape == (10,)


LAZY = """
class Lazy:
    def __getattr__(self, name):
        raise RuntimeError(f"{name} needs a device")

plans = Lazy()
"""


def test_an_environment_in_the_repository_is_not_looked_through_for_kernels() -> None:
    packages = Path(".venv/lib/site-packages")
    packages.mkdir(parents=True)
    (packages / "lazy.py").write_text(LAZY)
    Path("softcaps.py").write_text(f"import lazy\n{SOFTCAP}")
    Path("train.py").write_text(SOFTCAP_TRAINING)
    path = f"{packages.resolve()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    python("train.py", PYTHONPATH=path)
    assert array("fixtures/step0/expected.safetensors", "out").shape == (10,)


def test_a_training_on_a_gpu_does_not_load_the_interpreter() -> None:
    code = "from gradreplay import capture; import sys; assert 'triton' not in sys.modules"
    python("-c", code, TRITON_INTERPRET="0")
