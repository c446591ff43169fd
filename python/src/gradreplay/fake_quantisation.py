"""PyTorch's operations for fake quantisation, made of others.

They take no scales in float64, and round inside. A twin computes them as they are documented:
`(clamp(round(x / scale) + zero_point, least, most) - zero_point) * scale`.
Learned scales have the gradients of LSQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Gives what a tensor becomes where it is rounded to integers.
Rounding = Callable[[Any], Any]


def is_fake_quantisation(name: str) -> bool:
    """Whether the operation of PyTorch with this name is one that `quantise` knows."""
    return name in _OPERATIONS


def quantise(name: str, args: tuple[Any, ...], named: Mapping[str, Any], rounded: Rounding) -> Any:
    """The results of operation `name`."""
    return _OPERATIONS[name](rounded, *args, **named)


def _along(parameter: Any, x: Any, axis: int | None) -> Any:
    """`parameter` for the elements of `x`: one for all, or one for each index of `axis`."""
    if axis is None:
        return parameter.reshape(()) if hasattr(parameter, "reshape") else parameter
    sizes = [1] * x.dim()
    sizes[axis] = -1
    return parameter.reshape(sizes)


def _integers(rounded: Rounding, x: Any, scale: Any, zero_point: Any) -> Any:
    scaled = x * (1.0 / scale)
    if hasattr(zero_point, "is_floating_point") and zero_point.is_floating_point():
        return rounded(scaled + zero_point)
    return rounded(scaled) + zero_point


def _cut(
    rounded: Rounding, x: Any, scale: Any, zero_point: Any, least: int, most: int
) -> tuple[Any, Any]:
    """The integers above the zero point, and which of them were not cut off."""
    integers = _integers(rounded, x, scale, zero_point)
    is_inside = (integers >= least) & (integers <= most)
    return integers.clamp(least, most) - zero_point, is_inside


def _quantised(
    rounded: Rounding,
    x: Any,
    scale: Any,
    zero_point: Any,
    axis: int | None,
    least: int,
    most: int,
) -> tuple[Any, Any]:
    """The quantised numbers, and which of them were not cut off."""
    scale, zero_point = _along(scale, x, axis), _along(zero_point, x, axis)
    cut, is_inside = _cut(rounded, x, scale, zero_point, least, most)
    return cut * scale, is_inside


def _of_tensor_if_enabled(
    rounded: Rounding, x: Any, scale: Any, zero_point: Any, enabled: Any, least: int, most: int
) -> tuple[Any, Any]:
    if not enabled.item():
        return x.clone(), x == x
    return _quantised(rounded, x, scale, zero_point, None, least, most)


def _learned(
    rounded: Rounding,
    x: Any,
    scale: Any,
    zero_point: Any,
    axis: int | None,
    least: int,
    most: int,
    _grad_factor: float = 1.0,
) -> Any:
    zero_point = zero_point.round().clamp(least, most)
    return _quantised(rounded, x, scale, zero_point, axis, least, most)[0]


def _gradients_of_learned(
    rounded: Rounding,
    upstream: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    axis: int | None,
    least: int,
    most: int,
    grad_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """The gradients for the tensor, its scales and its zero points."""
    wide_scale = _along(scale, x, axis)
    zero = _along(zero_point.round().clamp(least, most), x, axis)
    cut, is_inside = _cut(rounded, x, wide_scale, zero, least, most)
    of_scale = upstream * (cut - x / wide_scale * is_inside) * grad_factor
    of_zero = upstream * wide_scale * ~is_inside * -grad_factor
    others = [other for other in range(x.dim()) if axis is None or other != axis % x.dim()]
    sums = (part.sum(others) if others else part for part in (of_scale, of_zero))
    of_scale, of_zero = (
        total.reshape(shaped.shape) for total, shaped in zip(sums, (scale, zero_point), strict=True)
    )
    return upstream * is_inside, of_scale, of_zero


def _of_whole(operation: Callable[..., Any], axis_place: int) -> Callable[..., Any]:
    """`operation` with one scale for all elements: no axis stands at `axis_place` of its arguments."""

    def without_axis(rounded: Rounding, *args: Any) -> Any:
        return operation(rounded, *args[:axis_place], None, *args[axis_place:])

    return without_axis


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "fake_quantize_per_tensor_affine_cachemask": _of_whole(_quantised, 3),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _of_tensor_if_enabled,
    "fake_quantize_per_channel_affine_cachemask": _quantised,
    "_fake_quantize_learnable_per_tensor_affine": _of_whole(_learned, 3),
    "_fake_quantize_learnable_per_tensor_affine_backward": _of_whole(_gradients_of_learned, 4),
    "_fake_quantize_learnable_per_channel_affine": _learned,
    "_fake_quantize_learnable_per_channel_affine_backward": _gradients_of_learned,
}
