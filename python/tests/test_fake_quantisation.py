"""PyTorch's operations for fake quantisation, in a twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import need

from gradreplay.integer_rounding import changing
from gradreplay.widening import widened

RANGE = (0, 255)
# Of a tensor, a scale, a zero point, and those of each index of the second axis.
Quantiser = Callable[[Any, Any, Any, Any, Any, Any], Any]
QUANTISERS: dict[str, Quantiser] = {
    "tensor": lambda torch, x, s, z, _ss, _zs: torch.fake_quantize_per_tensor_affine(
        x, s.item(), int(z), *RANGE
    ),
    "parameters": lambda torch, x, s, z, _ss, _zs: torch.fake_quantize_per_tensor_affine(
        x, s.detach(), z.detach().int(), *RANGE
    ),
    "channels": lambda torch, x, _s, _z, ss, zs: torch.fake_quantize_per_channel_affine(
        x, ss.detach(), zs.detach().int(), 1, *RANGE
    ),
    "learned": lambda torch, x, s, z, _ss, _zs: torch._fake_quantize_learnable_per_tensor_affine(
        x, s, z, *RANGE, 0.5
    ),
    "learned channels": lambda torch, x, _s, _z, ss, zs: (
        torch._fake_quantize_learnable_per_channel_affine(x, ss, zs, 1, *RANGE, 0.5)
    ),
}


def draw(torch: Any, dtype: Any) -> list[Any]:
    """Numbers of which some are cut off, with scales and zero points."""
    generator = np.random.default_rng(7)
    numbers = [
        3 * generator.standard_normal((3, 5, 2)),
        np.array([0.0131]),
        np.array([117.0]),
        generator.uniform(0.008, 0.02, 5),
        generator.integers(90, 160, 5).astype(float),
        generator.standard_normal((3, 5, 2)),
    ]
    rounded = [torch.tensor(number, dtype=torch.float32).to(dtype) for number in numbers]
    return [tensor.requires_grad_() for tensor in rounded[:5]] + rounded[5:]


def results(torch: Any, quantiser: Quantiser, dtype: Any) -> list[Any]:
    """The quantised numbers, and the gradients that there are."""
    *tensors, upstream = draw(torch, dtype)
    quantised = quantiser(torch, *tensors)
    quantised.backward(upstream)
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    return [tensor.detach() for tensor in (quantised, *gradients)]


@pytest.mark.parametrize("quantiser", QUANTISERS.values(), ids=QUANTISERS)
def test_a_twin_quantises_and_differentiates_as_the_operation_does(quantiser: Quantiser) -> None:
    need("torch")
    import torch

    narrow = results(torch, quantiser, torch.float32)
    with widened("torch"):
        wide = results(torch, quantiser, torch.float64)
    assert len(narrow) == len(wide)
    for native, twin in zip(narrow, wide, strict=True):
        assert (native.dtype, twin.dtype) == (torch.float32, torch.float64)
        assert native.shape == twin.shape
        assert torch.allclose(native.double(), twin, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("quantiser", QUANTISERS.values(), ids=QUANTISERS)
def test_their_rounding_goes_straight_through_a_record(
    quantiser: Quantiser, tmp_path: Path
) -> None:
    need("torch")
    import torch

    def quantised(shift: float) -> Any:
        x, *parameters, _ = draw(torch, torch.float64)
        return quantiser(torch, x.detach() + shift, *parameters).detach()

    with widened("torch"):
        plain = quantised(0.0)
        record = tmp_path / "record"
        with changing("recorded", "torch", record):
            assert torch.equal(quantised(0.0), plain)
        with changing("straight", "torch", record):
            moved = quantised(1e-6) - plain
    is_inside = torch.isclose(moved, torch.full_like(moved, 1e-6), rtol=1e-6)
    assert 0 < is_inside.sum() < moved.numel()
    assert torch.all(is_inside | (moved == 0))
