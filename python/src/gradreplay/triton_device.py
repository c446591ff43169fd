"""The GPU that launchers of Triton kernels ask about, where the interpreter runs them and there is none.

Launchers look up the number of multiprocessors, guard the current device and ask whether a tensor is on it.
They are told of a small device. Its properties choose block sizes and the number of partial sums. Tensors
stay on the CPU, and `torch.cuda.is_available()` stays false.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from .faults import Place

# Few, so that each program of a persistent kernel has several rows of a small input.
MULTIPROCESSORS = 8
_CAPABILITY = (9, 0)
_SHARED_MEMORY = 227 * 1024


def apply(place: Place) -> None:
    """Lets Triton and PyTorch tell of the device."""
    torch: Any = sys.modules.get("torch")
    _activate_driver(torch)
    if torch is not None:
        _describe(torch)
        _claim_tensors(torch, place)


def _activate_driver(torch: Any) -> None:
    driver: Any = sys.modules["triton.runtime.driver"].driver

    class Utilities:
        def get_device_properties(self, _device: object = None) -> dict[str, int]:
            return {
                "max_shared_mem": _SHARED_MEMORY,
                "max_num_regs": 65536,
                "multiprocessor_count": MULTIPROCESSORS,
                "warpSize": 32,
                "sm_clock_rate": 1_755_000,
                "mem_clock_rate": 2_619_000,
                "mem_bus_width": 5120,
            }

    class Driver:
        utils = Utilities()

        def get_current_target(self) -> Any:
            compiler: Any = importlib.import_module("triton.backends.compiler")
            return compiler.GPUTarget("cuda", 10 * _CAPABILITY[0] + _CAPABILITY[1], 32)

        def get_active_torch_device(self) -> Any:
            return torch.device("cpu")

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, _device: object) -> None:
            pass

        def get_current_stream(self, _device: object = None) -> int:
            return 0

        def get_device_capability(self, _device: object = None) -> tuple[int, int]:
            return _CAPABILITY

    driver.set_active(Driver())


def _describe(torch: Any) -> None:
    """Functions of `torch.cuda` that would start a GPU."""

    class Guard(nullcontext[None]):
        """In the place of `torch.cuda.device` and its like, with any arguments."""

        def __init__(self, *_args: object, **_named: object) -> None:
            super().__init__()

    stream = types.SimpleNamespace(
        cuda_stream=0, synchronize=_nothing, wait_stream=_nothing, device=torch.device("cpu")
    )
    properties = types.SimpleNamespace(
        name="Triton's interpreter",
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        multi_processor_count=MULTIPROCESSORS,
        warp_size=32,
        total_memory=80 << 30,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=_SHARED_MEMORY,
        shared_memory_per_multiprocessor=_SHARED_MEMORY + 1024,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        L2_cache_size=50 << 20,
    )
    cuda = torch.cuda
    for name in ("device", "device_of", "stream"):
        setattr(cuda, name, Guard)
    for name, value in (
        ("current_device", 0),
        ("get_device_properties", properties),
        ("get_device_capability", _CAPABILITY),
        ("get_device_name", properties.name),
        ("current_stream", stream),
        ("default_stream", stream),
        ("synchronize", None),
        ("set_device", None),
        ("empty_cache", None),
    ):
        setattr(cuda, name, _returning(value))


def _nothing(*_args: object, **_named: object) -> None:
    pass


def _returning(value: Any) -> Callable[..., Any]:
    def function(*_args: object, **_named: object) -> Any:
        return value

    return function


def _claim_tensors(torch: Any, place: Place) -> None:
    """Files of the revision that import Triton are told that tensors are on a GPU: it chooses the kernel."""
    is_on_gpu = torch.Tensor.__base__.is_cuda

    def is_cuda(tensor: Any) -> bool:
        asking = sys._getframe(1)
        if place.in_tree(asking.f_code.co_filename) and _imports_triton(asking.f_globals):
            return True
        return bool(is_on_gpu.__get__(tensor))

    torch.Tensor.is_cuda = property(is_cuda)


def _imports_triton(names: dict[str, Any]) -> bool:
    return any(
        isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "triton"
        for value in list(names.values())
    )
