"""Functions of compiled extensions: captured, and replayed with their own bits by the drafted script."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from test_capture_replays import python, replay
from written import names

from gradreplay import tensors

torch = pytest.importorskip("torch")

# A module as torch.utils.cpp_extension builds it, with its smallest headers.
MODULE = """
#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

// The gradient of `scale * sum(x * x)`; it takes any strides.
at::Tensor backward(const at::Tensor& x, double scale) {
  at::Tensor gradient = x.clone();
  float* elements = gradient.data_ptr<float>();
  for (int64_t i = 0; i < gradient.numel(); i++) elements[i] *= static_cast<float>(2 * scale);
  return gradient;
}

PYBIND11_MODULE(squares, module) { module.def("backward", &backward); }
"""

# An operator of the stable interface, which torch.ops.load_library loads.
OPERATOR = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor backward(const Tensor& x, double scale) {
  Tensor gradient = torch::stable::clone(x);
  float* elements = static_cast<float*>(gradient.data_ptr());
  for (int64_t i = 0; i < gradient.numel(); i++) elements[i] *= static_cast<float>(2 * scale);
  return gradient;
}

STABLE_TORCH_LIBRARY(squares, library) { library.def("backward(Tensor x, float scale) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(squares, CPU, library) { library.impl("backward", TORCH_BOX(&backward)); }
"""

LOADED = """
from pathlib import Path
import torch
torch.ops.load_library(Path(__file__).parent / "squares_operator.so")
"""

TRAINING = """
import torch, {module}
from gradreplay import capture
torch.manual_seed(1)
backward = capture.function({function}, name="backward", import_as={import_as}, parameters=["x", "scale"])
for step in range(2):
    with capture.step("fixtures/step{{step}}", step=step, when=capture.first(2), strict=True):
        assert torch.equal(backward(torch.full((3, 4), 2.0).t(), 0.5), torch.full((4, 3), 2.0))
"""

KINDS = {
    "module": ("squares", MODULE, "squares", "squares.backward", None),
    "operator": ("squares_operator", OPERATOR, "loaded", "torch.ops.squares.backward", "loaded"),
}


def compile_extension(name: str, source: str) -> None:
    """Compiles an extension into the current folder, on one core, without the headers of all operators."""
    home = Path(torch.__file__).parent
    Path(f"{name}.cpp").write_text(source)
    folders = [
        home / "include",
        home / "include/torch/csrc/api/include",
        sysconfig.get_path("include"),
    ]
    libraries = ["torch_python", "torch_cpu", "torch", "c10"]
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-o", f"{name}.so", f"{name}.cpp"]
    command += [f"-I{folder}" for folder in folders]
    command += [f"-L{home / 'lib'}", *(f"-l{library}" for library in libraries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_a_compiled_extension_is_captured_and_replayed(kind: str) -> None:
    name, source, module, function, import_as = KINDS[kind]
    python_h = Path(sysconfig.get_path("include"), "Python.h")
    if kind == "module" and not python_h.exists():
        pytest.skip(f"no {python_h}: a module of Python cannot be compiled")
    compile_extension(name, source)
    Path("loaded.py").write_text(LOADED)
    text = TRAINING.format(module=module, function=function, import_as=repr(import_as))
    Path("train.py").write_text(text)
    python("train.py")
    assert names() == ["step0", "step1"]
    Path("fixtures/step0").rename("fixtures/step0-backward")
    got = replay(Path("fixtures/step0-backward"), Path("."))
    expected = tensors.read("fixtures/step0-backward/expected.safetensors")
    assert set(got) == set(expected) == {"out"}
    assert got["out"].data.tobytes() == expected["out"].data.tobytes()
