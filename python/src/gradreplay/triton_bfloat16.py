"""Arithmetic of bfloat16 in Triton's interpreter, which holds its elements as 16 bits.

Sums, products and comparisons are made in float32 and rounded once more, to nearest. Float32 has more than
twice the digits, so the result is that of one rounding. `tl.dot` and reductions of Triton's own add up in
float32, as on a GPU. Reductions and scans by other functions go element by element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Methods of the interpreter's builder that compute with the elements of their operands.
ARITHMETIC = """
    create_dot create_clampf
    create_fadd create_fsub create_fmul create_fdiv create_frem create_precise_divf
    create_minimumf create_minnumf create_maximumf create_maxnumf
    create_fcmpOLT create_fcmpOGT create_fcmpOLE create_fcmpOGE create_fcmpOEQ create_fcmpONE
    create_fcmpULT create_fcmpUGT create_fcmpULE create_fcmpUGE create_fcmpUEQ create_fcmpUNE
    create_cos create_sin create_exp create_exp2 create_log create_log2 create_erf
    create_sqrt create_precise_sqrt create_rsqrt create_floor create_ceil
""".split()
_NAN = 0x7FC0


def apply(interpreter: Any) -> None:
    """Teaches an interpreter's module to compute with bfloat16."""
    emulation = _Emulation(interpreter)
    builder = interpreter.InterpreterBuilder
    for name in ARITHMETIC:
        if compute := getattr(builder, name, None):
            setattr(builder, name, emulation.through_float32(compute))
    for name, change in (
        ("create_fma", emulation.fused),
        ("cast_impl", emulation.cast),
        ("create_fp_to_fp", emulation.convert),
        ("create_atomic_rmw", emulation.update),
        ("create_tensor_pointer_load", emulation.pointer_load),
        ("create_descriptor_load", emulation.descriptor_load),
    ):
        if compute := getattr(builder, name, None):
            setattr(builder, name, change(compute))
    builder.get_bf16 = emulation.constant
    for kind, name in ((interpreter.ReduceOps, "reduce"), (interpreter.ScanOps, "scan")):
        kind.apply_impl = _by_element(kind.apply_impl, f"generic_{name}")


def to_float32(bits: Array) -> Array:
    """The numbers of bfloat16 with these bits."""
    wide: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def to_bits(numbers: Array, *, truncate: bool = False) -> Array:
    """The bits of numbers in bfloat16, rounded once: to nearest even, or towards zero."""
    with np.errstate(all="ignore"):
        bits = _float32_to_odd(numbers).view(np.uint32)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    if not truncate:
        bits = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded: Array = np.where(is_nan, sign | np.uint32(_NAN), bits >> np.uint32(16))
    return rounded.astype(np.uint16)


def _float32_to_odd(numbers: Array) -> Array:
    """Numbers in float32; the last digit of an inexact one is odd, so that another rounding sees it."""
    if numbers.dtype in (np.float32, np.float16):
        return np.array(numbers, np.float32)
    exact = np.asarray(numbers, np.float64)
    single = exact.astype(np.float32)
    return _to_odd(single, exact - single.astype(np.float64))


def _to_odd(rounded: Array, rest: Array) -> Array:
    """`rounded`, whose exact value is larger by `rest`, rounded to odd instead."""
    bits = np.atleast_1d(rounded).view(f"u{rounded.dtype.itemsize}").copy()
    rest = np.atleast_1d(rest)
    is_inexact = (rest != 0) & ~np.isnan(rest)
    # The magnitude was rounded up: the next one towards zero is the other neighbour.
    bits[is_inexact & (np.signbit(rest) != np.signbit(np.atleast_1d(rounded)))] -= 1
    bits[is_inexact] |= 1
    odd: Array = bits.view(rounded.dtype).reshape(np.shape(rounded))
    return odd


def _is_bfloat16(operand: object) -> bool:
    dtype = getattr(operand, "dtype", None)
    return hasattr(operand, "data") and str(getattr(dtype, "scalar", dtype)) == "bf16"


def _by_element(known: Callable[..., Any], generic: str) -> Callable[..., Any]:
    def applied(self: Any, given: Any) -> Any:
        if not any(part.dtype.is_bf16() for part in given):
            return known(self, given)
        if not getattr(self, "reverse", False):
            return getattr(self, generic)(given)
        flipped = [
            self.to_tensor(np.flip(part.handle.data, axis=self.axis), part.dtype) for part in given
        ]
        results = getattr(self, generic)(flipped)
        for result in results:
            result.handle.data = np.flip(result.handle.data, axis=self.axis)
        return results

    return applied


class _Emulation:
    """What is changed in the builder of one interpreter's module."""

    def __init__(self, interpreter: Any) -> None:
        self._interpreter = interpreter
        self._handle = interpreter.TensorHandle
        self._core: Any = interpreter.tl.core

    def _wide(self, operand: Any) -> Any:
        """An operand with its numbers in what float32 is computed in."""
        if not _is_bfloat16(operand):
            return operand
        single = self._core.float32
        numbers = to_float32(operand.data).astype(self._interpreter._get_np_dtype(single))
        return self._handle(numbers, single)

    def _narrow(self, numbers: Array, *, truncate: bool = False) -> Any:
        bits = to_bits(numbers, truncate=truncate)
        return self._handle(bits, self._core.bfloat16)

    def constant(self, value: float) -> Any:
        return self._narrow(np.array([value], np.float64))

    def through_float32(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(builder: Any, *operands: Any, **named: Any) -> Any:
            handles = [operand for operand in operands if isinstance(operand, self._handle)]
            if not any(map(_is_bfloat16, handles)):
                return compute(builder, *operands, **named)
            result = compute(builder, *map(self._wide, operands), **named)
            # The last operand has the type of the result: the accumulator of `tl.dot` may be float32.
            is_number = result.data.dtype != np.bool_
            is_narrow = is_number and _is_bfloat16(handles[-1])
            return self._narrow(result.data) if is_narrow else result

        return computed

    def fused(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(builder: Any, x: Any, y: Any, z: Any) -> Any:
            if not _is_bfloat16(z):
                return compute(builder, x, y, z)
            a, b, c = (to_float32(operand.data).astype(np.float64) for operand in (x, y, z))
            # The product is exact in float64; Knuth's two-sum has what the sum leaves.
            with np.errstate(all="ignore"):
                product = a * b
                total = product + c
                added = total - product
                rest = (product - (total - added)) + (c - added)
            return self._narrow(_to_odd(total, rest))

        return computed

    # Casts

    def cast(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def cast(builder: Any, source: Any, target: Any) -> Any:
            if source.dtype.scalar == target.scalar:
                return known(builder, source, target)
            wide = self._wide(source)
            if str(target.scalar) == "bf16":
                return self._narrow(wide.data)
            if wide is not source and str(target.scalar) == "fp32":
                return wide
            return known(builder, wide, target)

        return cast

    def convert(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def convert(builder: Any, source: Any, target: Any, rounding: Any) -> Any:
            if str(target.scalar) != "bf16":
                return known(builder, self._wide(source), target, rounding)
            if source.data.dtype.kind != "f" and not _is_bfloat16(source):
                # One of 8 bits, whose numbers float32 holds.
                source = known(builder, source, self._core.float32, None)
            truncate = rounding is not None and str(rounding).endswith("RTZ")
            return self._narrow(self._wide(source).data, truncate=truncate)

        return convert

    # Memory

    def update(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def update(
            builder: Any, operation: Any, pointers: Any, value: Any, mask: Any, *more: Any
        ) -> Any:
            if str(pointers.get_element_ty()) != "bf16" or not str(operation).endswith("FADD"):
                return known(builder, operation, pointers, value, mask, *more)
            shape = np.shape(pointers.data)
            is_on = np.broadcast_to(mask.data, shape).reshape(-1)
            added = to_float32(np.broadcast_to(value.data, shape).reshape(-1))
            before = np.zeros(is_on.shape, np.uint16)
            # One lane after the other: several may have one address.
            for lane, address in enumerate(np.reshape(pointers.data, -1)):
                if is_on[lane]:
                    cell = ctypes.c_uint16.from_address(int(address))
                    before[lane] = cell.value
                    total = to_float32(before[lane : lane + 1]) + added[lane : lane + 1]
                    cell.value = int(to_bits(total)[0])
            return self._handle(before.reshape(shape), value.dtype.scalar)

        return update

    def pointer_load(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def load(
            builder: Any, pointer: Any, checked: Any, padding: Any, *more: Any, **named: Any
        ) -> Any:
            if str(pointer.base.get_element_ty()) != "bf16" or not _is_nan(padding):
                return known(builder, pointer, checked, padding, *more, **named)
            pointers, mask = pointer.materialize_pointers(checked)
            return builder.create_masked_load(pointers, mask, self._nan(pointers), *more, **named)

        return load

    def descriptor_load(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def load(
            builder: Any, descriptor: Any, indices: Any, cache_modifier: Any, eviction_policy: Any
        ) -> Any:
            is_plain = str(descriptor.base.get_element_ty()) != "bf16"
            if is_plain or not _is_nan(getattr(descriptor, "padding", None)):
                return known(builder, descriptor, indices, cache_modifier, eviction_policy)
            pointers, mask = descriptor.materialize_pointers(indices)
            return builder.create_masked_load(
                pointers, mask, self._nan(pointers), cache_modifier, eviction_policy, False
            )

        return load

    def _nan(self, pointers: Any) -> Any:
        return self._handle(np.full(pointers.data.shape, _NAN, np.uint16), self._core.bfloat16)


def _is_nan(padding: object) -> bool:
    return str(padding).endswith("PAD_NAN")
