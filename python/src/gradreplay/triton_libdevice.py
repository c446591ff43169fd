"""The functions of libdevice, as NumPy and `math` compute them: Triton's interpreter has none.

Triton chooses a symbol (`__nv_tanhf`) by the types of the operands, as for a GPU, and the symbol chooses the
function here. Arithmetic in a direction of its own (`_rz`, `_rd`, `_ru`) is missing. Names are those of
NVIDIA's libdevice User's Guide.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from .faults import Blame
from .patches import replaced

Array = npt.NDArray[Any]
_Function = Callable[..., Any]


def apply(interpreter: Any) -> None:
    """Gives the builder of an interpreter's module the functions."""

    def computed(
        _builder: Any, _library: str, _path: str, symbol: str, operands: Any, kind: Any, _pure: bool
    ) -> Any:
        function = find(symbol)
        if function is None:
            raise Blame(
                "environment",
                f"`{symbol}` of libdevice is not there in Triton's interpreter",
                "replay on a GPU (--backend cuda)",
            )
        with np.errstate(all="ignore"):
            numbers = np.asarray(function(*(operand.data for operand in operands)))
        element = kind.scalar
        return interpreter.TensorHandle(
            _as_type(numbers, interpreter._get_np_dtype(element)), element
        )

    interpreter.InterpreterBuilder.create_extern_elementwise = computed


def find(symbol: str) -> _Function | None:
    """The function of a symbol, whose float variant ends with `f`, and that of 64 bits with `d` or `ll`."""
    name = symbol.removeprefix("__nv_")
    for end in ("", "f", "d", "ll"):
        if name.endswith(end) and (found := _FUNCTIONS.get(name.removesuffix(end))) is not None:
            return found
    return None


def changing_rounding(change: Callable[[Array, Array], Array]) -> AbstractContextManager[None]:
    """A block in which functions that round floats to integers give `change` of argument and result."""

    def changed(function: _Function) -> _Function:
        return lambda x: change(np.asarray(x), np.asarray(function(x)))

    rounding = {name: changed(_FUNCTIONS[name]) for name in ("rint", "nearbyint", "round")}
    return replaced(sys.modules[__name__], "_FUNCTIONS", {**_FUNCTIONS, **rounding})


def _as_type(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers of another type. Floats beyond the integers become the nearest one, and NaN 0, as in CUDA."""
    if numbers.dtype.kind != "f" or dtype.kind not in "iu":
        return numbers.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    # The greatest integer may be none of the floats.
    is_over, is_under = numbers >= float(limits.max) + 1, numbers < float(limits.min)
    inside = np.where(is_over | is_under | np.isnan(numbers), 0, numbers).astype(dtype)
    result: Array = np.where(is_over, dtype.type(limits.max), inside)
    return np.where(is_under, dtype.type(limits.min), result)


def _scalar(compute: Callable[..., float]) -> _Function:
    """A function of `math` for arrays. It is computed in float64."""

    def one(*operands: float) -> float:
        try:
            return compute(*operands)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    vectorized = np.vectorize(one, otypes=[np.float64])

    def of_arrays(*operands: Array) -> Array:
        numbers: Array = vectorized(*operands)
        return numbers

    return of_arrays


def _rounded(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    nearest: Array = whole + np.copysign(np.abs(x - whole) >= 0.5, x)
    return nearest


def _unsigned(x: Array) -> Array:
    bits: Array = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    return bits


def _count_bits(x: Array) -> Array:
    bits, count = _unsigned(x), np.zeros(x.shape, np.int32)
    for place in range(8 * x.dtype.itemsize):
        count += ((bits >> place) & 1).astype(np.int32)
    return count


def _leading_zeros(x: Array) -> Array:
    bits, width = _unsigned(x), 8 * x.dtype.itemsize
    zeros = np.full(x.shape, width, np.int32)
    for place in range(width):
        zeros = np.where((bits >> place) & 1, width - 1 - place, zeros)
    return zeros


def _first_set(x: Array) -> Array:
    """The place of the lowest bit that is set, from 1 on; 0 if none is."""
    lowest = x & -x
    return np.where(x == 0, 0, 8 * x.dtype.itemsize - _leading_zeros(lowest))


def _reversed_bits(x: Array) -> Array:
    bits, width = _unsigned(x), 8 * x.dtype.itemsize
    turned = np.zeros_like(bits)
    for place in range(width):
        turned |= ((bits >> place) & 1) << (width - 1 - place)
    return turned.view(x.dtype)


def _high_product(x: Array, y: Array) -> Array:
    products = x.astype(object) * y.astype(object)
    high: Array = (products >> (8 * x.dtype.itemsize)).astype(x.dtype)
    return high


def _product_of_24_bits(x: Array, y: Array) -> Array:
    shift = 8 * x.dtype.itemsize - 24
    product: Array = ((x << shift) >> shift) * ((y << shift) >> shift)
    return product


def _halved_sum(x: Array, y: Array, more: int = 0) -> Array:
    halves: Array = ((x.astype(np.int64) + y.astype(np.int64) + more) >> 1).astype(x.dtype)
    return halves


def _chosen_bytes(x: Array, y: Array, selector: Array) -> Array:
    both = _unsigned(x).astype(np.uint64) | _unsigned(y).astype(np.uint64) << np.uint64(32)
    selected = np.zeros_like(both)
    for place in range(4):
        nibble = (_unsigned(selector) >> (4 * place)) & 0xF
        byte = (both >> ((nibble & 7).astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        byte = np.where(nibble & 8, sign, byte)
        selected |= byte << np.uint64(8 * place)
    chosen: Array = selected.astype(np.uint32).view(x.dtype)
    return chosen


def _angle_of_half_turns(x: Array) -> Array:
    """`x` in half turns as an angle in radians. Whole turns are taken away exactly."""
    angle: Array = np.fmod(x.astype(np.float64), 2.0) * np.pi
    return angle


def _power_by_integer(x: Array, n: Array) -> Array:
    power: Array = np.power(x, n.astype(x.dtype))
    return power


def _norm(*parts: Array) -> Array:
    squares = np.stack([part.astype(np.float64) ** 2 for part in parts])
    length: Array = np.sqrt(squares.sum(axis=0))
    return length


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _fused(x: Array, y: Array, z: Array) -> Array:
    # The product of two in float32 is exact in float64.
    result: Array = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    return result


_FUNCTIONS: dict[str, _Function] = {
    # Floats.
    **{
        name: getattr(np, name)
        for name in """
            fabs floor ceil trunc sqrt rint exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh
            fmod copysign nextafter isnan isinf signbit hypot cbrt
        """.split()
    },
    **{
        name: getattr(np, f"arc{name[1:]}")
        for name in "asin acos atan atan2 asinh acosh atanh".split()
    },
    **{name: _scalar(getattr(math, name)) for name in "erf erfc lgamma remainder".split()},
    "tgamma": _scalar(math.gamma),
    "normcdf": _scalar(_normal_cdf),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "pow": np.power,
    "powi": _power_by_integer,
    "sinpi": lambda x: np.sin(_angle_of_half_turns(x)),
    "cospi": lambda x: np.cos(_angle_of_half_turns(x)),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda *parts: 1 / _norm(*parts),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *parts: 1 / _norm(*parts),
    "rnorm4d": lambda *parts: 1 / _norm(*parts),
    "saturate": lambda x: np.nan_to_num(np.clip(x, 0, 1), nan=0),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x + y), x + y, 0)),
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "nearbyint": np.rint,
    "round": _rounded,
    "llround": lambda x: _rounded(x).astype(np.int64),
    "llrint": lambda x: np.rint(x).astype(np.int64),
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "logb": lambda x: np.where(x == 0, -np.inf, np.frexp(x)[1] - 1.0),
    "fma": _fused,
    "fmaf_rn": _fused,
    "fma_rn": _fused,
    **{f"{kind}add_rn": np.add for kind in "fd"},
    **{f"{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"{kind}div_rn": np.divide for kind in "fd"},
    **{f"{kind}rcp_rn": lambda x: 1 / x for kind in "fd"},
    **{f"{kind}sqrt_rn": np.sqrt for kind in "fd"},
    # Fast ones, which are less precise on a GPU.
    "fast_fdivide": np.divide,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(x.dtype.type(10), x),
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_pow": np.power,
    "fast_tanh": np.tanh,
    # Integers.
    "abs": np.abs,
    "llabs": np.abs,
    "clz": _leading_zeros,
    "popc": _count_bits,
    "ffs": _first_set,
    "brev": _reversed_bits,
    "byte_perm": _chosen_bytes,
    "mul24": _product_of_24_bits,
    "umul24": _product_of_24_bits,
    **{name: _high_product for name in "mulhi umulhi mul64hi umul64hi".split()},
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y.astype(np.int64)) + z,
    "usad": lambda x, y, z: np.abs(x.astype(np.int64) - y.astype(np.int64)) + z,
    "hadd": _halved_sum,
    "uhadd": _halved_sum,
    "rhadd": lambda x, y: _halved_sum(x, y, 1),
    "urhadd": lambda x, y: _halved_sum(x, y, 1),
    # Conversions: the result is converted to its type.
    "double2float_rn": lambda x: x,
    **{
        f"{source}2{target}_{mode}": whole
        for source in ("float", "double")
        for target in ("int", "uint", "ll", "ull")
        for mode, whole in (("rn", np.rint), ("rz", np.trunc), ("rd", np.floor), ("ru", np.ceil))
    },
    **{
        f"{source}2{target}_rn": lambda x: x
        for source in ("int", "uint", "ll", "ull")
        for target in ("float", "double")
    },
    **{
        f"{kind}_as_float": lambda x: np.ascontiguousarray(x).view(np.float32)
        for kind in ("int", "uint")
    },
    "float_as_int": lambda x: np.ascontiguousarray(x.astype(np.float32)).view(np.int32),
    "float_as_uint": lambda x: np.ascontiguousarray(x.astype(np.float32)).view(np.uint32),
    "longlong_as_double": lambda x: np.ascontiguousarray(x).view(np.float64),
    "double_as_longlong": lambda x: np.ascontiguousarray(x).view(np.int64),
}
