"""Casts to float32 that code names, widened while a twin in float64 is computed.

A twin has float64 inputs, and `x.float()`, `dtype=torch.float32` or a tensor made without a dtype would round
it on the way. PyTorch's operations are seen below autograd, so in backward functions and in compiled code:
where one is told float32, it makes float64. Its name `torch.float32` means float64, so tests of dtypes go
as they go natively. JAX's conversions are told so where they are traced. In NumPy the name means
float64 as well. Random numbers are drawn in float32, and are those of the native replay.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from . import triton_widening
from .fake_quantisation import is_fake_quantisation, quantise
from .loading import when_loaded
from .patches import replaced
from .signatures import signature
from .tensors import Framework


@contextmanager
def widened(framework: Framework) -> Iterator[None]:
    """Widens casts to float32 for the length of a block, where the framework allows it."""
    if framework == "torch":
        with _torch_widened():
            yield
    elif framework == "jax":
        with _jax_widened():
            yield
    else:
        with _numpy_widened():
            yield


# NumPy


@contextmanager
def _numpy_widened() -> Iterator[None]:
    """`numpy.float32` means float64, so casts, literals and tests of dtypes by this name do.

    Bytes have one meaning alone: a twin that takes some for floats ends, and is made without."""
    make = np.random.default_rng
    limits = np.finfo

    def limits_of(dtype: Any) -> Any:
        is_name = isinstance(dtype, (type, str, np.dtype))
        named = np.dtype(dtype if is_name else dtype.dtype)
        return limits(_NUMPY_NARROW if named == np.float64 else named)

    def made(*args: Any, **named: Any) -> Any:
        return _NumpyDrawing(make(*args, **named).bit_generator)

    def refuse(reader: str, *dtypes: Any) -> None:
        if any(np.dtype(dtype).kind in "fV" for dtype in dtypes):
            raise TypeError(f"numpy.{reader} takes bytes for floats of one width")

    def refusing(name: str) -> Callable[..., Any]:
        read: Callable[..., Any] = getattr(np, name)

        def reading(*args: Any, **named: Any) -> Any:
            # Without a dtype it reads float64 natively, too.
            refuse(name, *args[1:2], *([named["dtype"]] if "dtype" in named else []))
            return read(*args, **named)

        return reading

    class Mapped(np.memmap[Any, Any]):
        def __new__(cls, filename: Any, dtype: Any = np.uint8, *args: Any, **named: Any) -> Any:
            refuse("memmap", dtype)
            return super().__new__(cls, filename, dtype, *args, **named)

    with ExitStack() as patches:
        for name in ("float32", "single"):
            patches.enter_context(replaced(np, name, np.float64))
        patches.enter_context(replaced(np, "finfo", limits_of))
        patches.enter_context(replaced(np.random, "default_rng", made))
        patches.enter_context(replaced(np, "memmap", Mapped))
        for name in ("frombuffer", "fromfile"):
            patches.enter_context(replaced(np, name, refusing(name)))
        yield


_NUMPY_NARROW = np.float32


class _NumpyDrawing(np.random.Generator):
    """Draws in float32 where the code names it, under the name of float64."""

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return self._draw(super().random, dtype, out, size)

    def standard_normal(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return self._draw(super().standard_normal, dtype, out, size)

    def standard_exponential(
        self, size: Any = None, dtype: Any = None, method: Any = "zig", out: Any = None
    ) -> Any:
        def draw(size: Any, dtype: Any) -> Any:
            return np.random.Generator.standard_exponential(self, size, dtype, method)

        return self._draw(draw, dtype, out, size)

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = None, out: Any = None
    ) -> Any:
        def draw(size: Any, dtype: Any) -> Any:
            return np.random.Generator.standard_gamma(self, shape, size, dtype)

        return self._draw(draw, dtype, out, size)

    @staticmethod
    def _draw(draw: Callable[..., Any], dtype: Any, out: Any, size: Any) -> Any:
        if dtype is None:
            # By default it draws in float64 natively, too.
            drawn = draw(size=np.shape(out) if out is not None else size, dtype=np.float64)
        else:
            # NumPy looks the format up by its name.
            with replaced(np, "float32", _NUMPY_NARROW):
                drawn = draw(size=np.shape(out) if out is not None else size, dtype=_NUMPY_NARROW)
            drawn = np.asarray(drawn, np.float64)[()]
        if out is None:
            return drawn
        out[...] = drawn
        return out


# PyTorch


@contextmanager
def _torch_widened() -> Iterator[None]:
    torch: Any = importlib.import_module("torch")
    default = torch.get_default_dtype()
    if default is torch.float32:
        torch.set_default_dtype(torch.float64)
    try:
        with ExitStack() as patches:
            patches.enter_context(_torch_mode(torch))
            patches.enter_context(replaced(torch, "finfo", _limits(torch)))
            for name in ("float32", "float"):
                patches.enter_context(replaced(torch, name, torch.float64))
            patches.enter_context(triton_widening.widened())
            yield
    finally:
        torch.set_default_dtype(default)


def _torch_mode(torch: Any) -> Any:
    modes: Any = importlib.import_module("torch.utils._python_dispatch")
    narrow, wide = torch.float32, torch.float64

    def wider(argument: Any) -> Any:
        return wide if argument is narrow else argument

    class Widening(modes.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self,
            operation: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            named = dict(kwargs or {})
            name = operation.overloadpacket.__name__
            if name in _DRAWING:
                return _draw(operation, args, named, narrow, wide)
            if name in _REINTERPRETING:
                return operation(*args, **named)
            if is_fake_quantisation(name):
                return quantise(name, args, named, torch.round)
            args = tuple(map(wider, args))
            return operation(*args, **{key: wider(value) for key, value in named.items()})

    return Widening()


def _limits(torch: Any) -> Callable[..., Any]:
    """`torch.finfo`, in which float64 stands for float32: epsilons are those of the native replay."""
    limits, narrow, wide = torch.finfo, torch.float32, torch.float64

    def limits_of(dtype: Any = None) -> Any:
        return limits(narrow if dtype is None or dtype is wide else dtype)

    return limits_of


# Operations of PyTorch that take a dtype for what bits mean.
_REINTERPRETING = {"view"}

# Operations of PyTorch that draw random numbers: others in float64 than in float32.
_DRAWING = set(
    """
    rand rand_like randn randn_like normal normal_ uniform uniform_ exponential exponential_
    cauchy cauchy_ log_normal log_normal_ geometric geometric_ bernoulli bernoulli_ multinomial
    poisson binomial _standard_gamma _sample_dirichlet native_dropout
    """.split()
)


def _draw(
    operation: Any,
    args: tuple[Any, ...],
    named: dict[str, Any],
    narrow: Any,
    wide: Any,
) -> Any:
    """What `operation` draws in float32, as float64."""

    def narrowed(argument: Any) -> Any:
        is_wide = getattr(argument, "dtype", None) is wide
        return argument.to(narrow) if is_wide else argument

    name = operation.overloadpacket.__name__
    if name == "native_dropout":
        given, share, *rest = args
        _, kept = operation(narrowed(given), share, *rest, **named)
        left = 1.0 - share
        return given * kept * (1.0 / left if left > 0 else 0.0), kept
    if name.endswith("_"):
        target, *rest = args
        drawn = operation(narrowed(target), *map(narrowed, rest), **named)
        return target.copy_(drawn)
    if named.get("dtype", wide) is wide or named["dtype"] is None:
        is_made = name in ("rand", "randn") or name.endswith("_like")
        if is_made or "dtype" in named:
            named["dtype"] = narrow
    drawn = operation(*map(narrowed, args), **named)
    return drawn.to(wide) if drawn.dtype is narrow else drawn


# JAX


@contextmanager
def _jax_widened() -> Iterator[None]:
    """Conversions, products and ranges are told float64 for float32, while they are traced or run.

    These functions are JAX's own, and another version may have them elsewhere: then casts stay."""
    jax: Any = importlib.import_module("jax")
    try:
        lax: Any = importlib.import_module("jax._src.lax.lax")
        products, ranges, conversions = lax.dot_general_p, lax.iota_p, lax.convert_element_type_p
        convert, core = (
            lax._convert_element_type,
            importlib.import_module(jax.random.uniform.__module__),
        )
    except (ImportError, AttributeError):
        yield
        return
    # What draws random numbers computes in the format that it draws in.
    is_drawing = False

    def wider(dtype: Any) -> Any:
        is_narrow = not is_drawing and dtype is not None and dtype == np.float32
        return np.dtype(np.float64) if is_narrow else dtype

    def converted(operand: Any, new_dtype: Any = None, *more: Any, **named: Any) -> Any:
        return convert(operand, wider(new_dtype), *more, **named)

    def bound(primitive: Any, key: str) -> Callable[..., Any]:
        bind: Callable[..., Any] = primitive.bind

        def wide(*args: Any, **named: Any) -> Any:
            return bind(*args, **{**named, key: wider(named.get(key))})

        return wide

    def drawing(draw: Callable[..., Any]) -> Callable[..., Any]:
        known = signature(draw)

        def drawn(*args: Any, **named: Any) -> Any:
            nonlocal is_drawing
            given = known.bind(*args, **named)
            given.apply_defaults()
            dtype = given.arguments["dtype"]
            if is_drawing or not (dtype in (None, float) or np.dtype(dtype) in _FLOATS):
                return draw(*args, **named)
            given.arguments["dtype"] = np.float32
            is_drawing = True
            try:
                result = draw(*given.args, **given.kwargs)
            finally:
                is_drawing = False
            return convert(result, np.dtype(np.float64))

        return drawn

    with ExitStack() as patches:
        patches.enter_context(replaced(lax, "_convert_element_type", converted))
        for primitive, key in (
            (conversions, "new_dtype"),
            (products, "preferred_element_type"),
            (ranges, "dtype"),
        ):
            patches.enter_context(replaced(primitive, "bind", bound(primitive, key)))
        for name in _JAX_DRAWING:
            draw = getattr(jax.random, name, None)
            if draw is None:
                continue
            wrapped = drawing(draw)
            for module in (jax.random, core):
                if getattr(module, name, None) is draw:
                    patches.enter_context(replaced(module, name, wrapped))
        # Its import takes a second, so that only code that uses it pays.
        when_loaded("jax._src.pallas.core", lambda module: _widen_pallas(module, patches, wider))
        yield


def _widen_pallas(core: Any, patches: ExitStack, wider: Callable[[Any], Any]) -> None:
    """Results and scratch memory of Pallas kernels have the format that the kernels compute in."""

    def widen(aval: Any) -> Any:
        return aval.update(dtype=wider(aval.dtype)) if hasattr(aval, "dtype") else aval

    def bound(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda out_shape: widen(function(out_shape))

    def referenced(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda ref: function(replace(ref, inner_aval=widen(ref.inner_aval)))

    shaped = getattr(core, "_convert_out_shape_to_aval", None)
    if shaped is not None:
        patches.enter_context(replaced(core, "_convert_out_shape_to_aval", bound(shaped)))
    kind: Any = getattr(core, "MemoryRef", None)
    if hasattr(kind, "get_ref_aval"):
        patches.enter_context(replaced(kind, "get_ref_aval", referenced(kind.get_ref_aval)))


# Functions of `jax.random` that draw floats: others in float64 than in float32.
_JAX_DRAWING = """
    uniform normal truncated_normal beta cauchy chisquare dirichlet double_sided_maxwell exponential
    f gamma generalized_normal gumbel laplace loggamma logistic lognormal maxwell multivariate_normal
    orthogonal pareto rayleigh t triangular wald weibull_min ball
""".split()
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
