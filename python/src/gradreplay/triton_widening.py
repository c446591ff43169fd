"""Triton's interpreter with float64 under the name of float32, while a twin in float64 is computed.

`tl.float32` stays the type of every kernel, default and helper, so a kernel takes the branches that it takes
natively. Its numbers are float64: the type has their width, and what the interpreter makes of it has their
digits. Tensors of PyTorch in float64 have elements of this type. Memory that stayed in float32, such as
that of NumPy, is rounded where a kernel stores to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from . import triton_interpreter
from .faults import Blame
from .patches import replaced

# What tells how wide the numbers of a type are.
_WIDTHS = ("primitive_bitwidth", "itemsize", "fp_mantissa_width", "exponent_bias")


@contextmanager
def widened() -> Iterator[None]:
    """Widens float32 of interpreted kernels for the length of a block; Triton may be imported in it."""
    is_over = False

    def widen(interpreter: Any) -> None:
        if not is_over:
            _Widening(interpreter).apply(changes)

    with ExitStack() as changes:
        if triton_interpreter.is_used():
            triton_interpreter.when_loaded(widen)
        try:
            yield
        finally:
            is_over = True


class _Widening:
    """What is changed in one interpreter's module."""

    def __init__(self, interpreter: Any) -> None:
        self._core: Any = sys.modules["triton.language.core"]
        self._interpreter = interpreter
        self._handle = interpreter.TensorHandle
        self._single: Any = self._core.float32
        self._double: Any = self._core.float64
        # Elements of memory in float32. Pointers alone have it, and in their handles.
        self._narrow: Any = self._core.dtype("fp32")

    def apply(self, changes: ExitStack) -> None:
        for name in _WIDTHS:
            changes.enter_context(replaced(self._single, name, getattr(self._double, name)))
        interpreter, builder = self._interpreter, self._interpreter.InterpreterBuilder
        for target, name, change in (
            (interpreter, "_get_np_dtype", self._numpy_type),
            (interpreter, "_implicit_cvt", self._argument),
            (interpreter.TritonSemantic, "cast", self._cast),
            (interpreter.TritonSemantic, "bitcast", self._bitcast),
            (interpreter.TritonSemantic, "atomic_max", self._extreme),
            (interpreter.TritonSemantic, "atomic_min", self._extreme),
            (builder, "get_fp32", self._constant),
            (builder, "create_bitcast", self._bits),
            (builder, "create_int_to_ptr", self._bits),
            (builder, "create_ptr_to_int", self._bits),
            (builder, "create_masked_load", self._load),
            (builder, "create_masked_store", self._store),
            (builder, "create_atomic_rmw", self._update),
            (builder, "create_atomic_cas", self._exchange),
        ):
            changes.enter_context(replaced(target, name, change(getattr(target, name))))

    # Types

    def _numpy_type(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def numpy_type(dtype: Any) -> Any:
            found = known(dtype)
            is_wide = found == np.float32 and dtype.scalar is not self._narrow
            return np.dtype(np.float64) if is_wide else found

        return numpy_type

    def _argument(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        def argument(given: Any) -> Any:
            converted = convert(given)
            if not isinstance(converted, self._core.tensor) or not converted.type.is_ptr():
                return converted
            element = converted.type.element_ty
            if element not in (self._single, self._double):
                return converted
            # The tensor has the type that the kernel knows, and the handle that of the memory.
            own = self._single if element == self._double else self._narrow
            is_const = converted.type.const
            handle = self._handle(
                converted.handle.data, self._core.pointer_type(own, const=is_const)
            )
            return self._core.tensor(handle, self._core.pointer_type(self._single, const=is_const))

        return argument

    def _constant(self, _known: Callable[..., Any]) -> Callable[..., Any]:
        def constant(_builder: Any, value: float) -> Any:
            return self._handle(np.array([value], dtype=np.float64), self._single)

        return constant

    # Casts

    def _cast(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def cast(semantic: Any, given: Any, target: Any, *more: Any, **named: Any) -> Any:
            names = {given.type.scalar.name, target.scalar.name}
            if names != {"fp32", "fp64"}:
                return known(semantic, given, target, *more, **named)
            to = given.type.with_element_ty(target.scalar) if given.type.is_block() else target
            return semantic.tensor(self._handle(given.handle.data, target.scalar), to)

        return cast

    def _bitcast(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def bitcast(semantic: Any, given: Any, target: Any) -> Any:
            source, to = given.type.scalar, target.scalar
            is_single = self._single in (source, to) and not (source.is_ptr() or to.is_ptr())
            if not is_single or {source.primitive_bitwidth, to.primitive_bitwidth} != {32, 64}:
                return known(semantic, given, target)
            block = given.type.with_element_ty(to) if given.type.is_block() else target
            return semantic.tensor(semantic.builder.create_bitcast(given.handle, to), block)

        return bitcast

    def _bits(self, known: Callable[..., Any]) -> Callable[..., Any]:
        """Bits of a number are those of the number in float32, unless 64 of them are asked for."""

        def bits(builder: Any, source: Any, target: Any) -> Any:
            to = target.scalar
            if to.is_ptr():
                return self._handle(source.data, self._pointer(source, to))
            if to == self._single and source.data.itemsize == 4:
                return self._handle(source.data.view(np.float32).astype(np.float64), to)
            if source.dtype.scalar == self._single and to.primitive_bitwidth == 32:
                rounded = source.data.astype(np.float32)
                return self._handle(rounded.view(self._interpreter._get_np_dtype(to)), to)
            return known(builder, source, target)

        return bits

    def _pointer(self, source: Any, target: Any) -> Any:
        """The type of a pointer that was one to other elements, or a number."""
        if not source.dtype.scalar.is_ptr():
            return target
        known, wanted = source.get_element_ty(), target.element_ty
        if known is self._single and wanted != self._single:
            raise Blame(
                "revision",
                f"a kernel takes memory of float32 for {wanted}: in float64 it has other bytes",
            )
        if wanted == self._single and known is not self._single:
            return self._core.pointer_type(self._narrow, const=target.const)
        return target

    # Memory

    def _load(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def load(
            builder: Any, pointers: Any, mask: Any, other: Any, *more: Any, **named: Any
        ) -> Any:
            if pointers.get_element_ty() is not self._narrow:
                return known(builder, pointers, mask, other, *more, **named)
            if other is not None:
                other = self._rounded(other)
            return self._wide(known(builder, pointers, mask, other, *more, **named))

        return load

    def _store(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def store(builder: Any, pointers: Any, value: Any, *more: Any, **named: Any) -> Any:
            if pointers.get_element_ty() is self._narrow:
                value = self._rounded(value)
            return known(builder, pointers, value, *more, **named)

        return store

    def _update(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def update(builder: Any, operation: Any, pointers: Any, value: Any, *more: Any) -> Any:
            if pointers.get_element_ty() is not self._narrow:
                return known(builder, operation, pointers, value, *more)
            return self._wide(known(builder, operation, pointers, self._rounded(value), *more))

        return update

    def _exchange(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def exchange(builder: Any, pointers: Any, wanted: Any, value: Any, *more: Any) -> Any:
            if pointers.get_element_ty() is not self._narrow:
                return known(builder, pointers, wanted, value, *more)
            operands = self._rounded(wanted), self._rounded(value)
            return self._wide(known(builder, pointers, *operands, *more))

        return exchange

    def _extreme(self, known: Callable[..., Any]) -> Callable[..., Any]:
        """An atomic maximum or minimum, which Triton makes of the bits: here of all 64."""

        def extreme(semantic: Any, pointer: Any, value: Any, *more: Any) -> Any:
            if pointer.handle.get_element_ty() is not self._single:
                return known(semantic, pointer, value, *more)
            element = self._core.pointer_type(self._double)
            kind = pointer.type
            to = kind.with_element_ty(element) if kind.is_block() else element
            taken = semantic.tensor(self._handle(pointer.handle.data, element), to)
            found = known(semantic, taken, semantic.cast(value, self._double), *more)
            return semantic.cast(found, self._single)

        return extreme

    def _rounded(self, handle: Any) -> Any:
        return self._handle(handle.data.astype(np.float32), self._narrow)

    def _wide(self, handle: Any) -> Any:
        return self._handle(handle.data.astype(np.float64), self._single)
