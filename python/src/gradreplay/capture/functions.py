"""`capture.function`: wraps what a training calls, so that a captured step sees its arrays.

While no step is captured the wrapper asks one question and calls the function.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import tensors
from ..signatures import signature
from . import arguments, numpy_, torch_
from .arguments import Arguments, Parameters
from .errors import CaptureError, tell
from .record import Function, ShapeNames
from .session import register, state
from .target import find

_T = TypeVar("_T")


@dataclass(frozen=True)
class Options:
    """How a function is captured, whatever its framework."""

    name: str
    shapes: ShapeNames
    outputs: Sequence[str] | None
    parameters: Sequence[str] | None
    writes: Sequence[str]
    axis: str | None
    harness: Path | None
    rename: Mapping[str, str]
    import_as: str | None
    build: Mapping[str, str]
    strict: bool


def function(
    function: _T,
    *,
    name: str | None = None,
    shapes: ShapeNames | None = None,
    outputs: Sequence[str] | None = None,
    parameters: Sequence[str] | None = None,
    writes: Sequence[str] = (),
    axis: str | None = None,
    harness: str | Path | None = None,
    rename: Mapping[str, str] | None = None,
    import_as: str | None = None,
    build: Mapping[str, str] | None = None,
    strict: bool = False,
) -> _T:
    """What behaves as `function` does, and is captured in the steps of `capture.step`.

    `function` is a function of arrays of PyTorch or NumPy, a `torch.nn.Module` (which is changed and
    returned), a `torch.autograd.Function`, an operator of `torch.library` or a compiled function.

    - `name`: that of its fixtures and its harness; else the function's own.
    - `shapes`: names of sizes by input, such as `{"logits": "batch seq vocab"}`.
    - `outputs`: names of what it returns, in order.
    - `parameters`: names of its positional arguments, where it has no signature.
    - `writes`: arguments that a kernel writes without PyTorch's knowledge.
    - `axis`: the size along which the calls of a step are parts of one fixture.
    - `harness`: a `replay.toml` that the fixtures fit; else one is drafted.
    - `rename`: other names for gradients, such as `{"grad_out": "dout"}`.
    - `import_as`: `module:name` by which a replay imports it; for a module, what builds one.
    - `build`: functions, as `module:name`, that make what no fixture can hold, by the path of the argument:
      `{"state.tx": "model.training:make_optimizer"}`.
    - `strict`: whether errors of capturing are raised instead of logged.

    Raises :class:`CaptureError` if the name is taken, whatever `strict` says."""
    chosen = name or _own_name(function)
    if not chosen.isidentifier():
        chosen = arguments.identifier(chosen)
    register(chosen)
    options = Options(
        chosen,
        dict(shapes or {}),
        outputs,
        parameters,
        tuple(writes),
        axis,
        # The training may change its folder before the first step.
        Path(harness).resolve() if harness is not None else None,
        dict(rename or {}),
        import_as,
        dict(build or {}),
        strict,
    )
    torch: Any = sys.modules.get("torch")
    wrapped: Any = function
    if torch is not None and isinstance(function, torch.nn.Module):
        return _wrap_module(wrapped, options)  # type: ignore[no-any-return]
    if (
        torch is not None
        and inspect.isclass(function)
        and issubclass(function, torch.autograd.Function)
    ):
        proxy: Any = AutogradFunction(function, options)
        return proxy  # type: ignore[no-any-return]
    if not callable(function):
        raise CaptureError(f"`{chosen}` is a {type(function).__qualname__}, which cannot be called")
    call: Any = _wrap(wrapped, wrapped, options, _without_defaults(wrapped))
    return call  # type: ignore[no-any-return]


def _own_name(function: Any) -> str:
    function = _defined(function)
    text = getattr(function, "__name__", None) or getattr(function, "_opname", None)
    return str(text or type(function).__name__).strip("<>")


def _defined(function: Any) -> Any:
    """The function that `torch.library.custom_op` made an operator of, or `function` itself."""
    torch: Any = sys.modules.get("torch")
    kind = getattr(getattr(torch, "library", None), "CustomOpDef", None)
    return function._init_fn if kind is not None and isinstance(function, kind) else function


def _without_defaults(function: Any) -> Any:
    """What `inspect` and :func:`find` are asked about."""
    function = _defined(function)
    return inspect.unwrap(function) if hasattr(function, "__wrapped__") else function


def _wrap(
    call: Callable[..., Any], named: Any, options: Options, signature: Any
) -> Callable[..., Any]:
    described = functools.cache(lambda framework: describe(named, framework, options))
    parameters = arguments.Parameters(options.parameters, signature)
    captured = undisturb(functools.partial(_captured, call, described, options, parameters))
    is_sealed = seal(options.name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not state.on or is_sealed():
            return call(*args, **kwargs)
        return captured(args, kwargs)

    try:
        functools.update_wrapper(wrapper, call)
    except (AttributeError, TypeError):
        pass
    return wrapper


def undisturb(captured: Callable[..., Any]) -> Callable[..., Any]:
    """The same, run by Python also where torch.compile compiles what calls it."""
    torch: Any = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    if compiler is None:
        return captured

    def run(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return captured(args, kwargs)

    disabled: Callable[..., Any] = compiler.disable(run)
    return disabled


def seal(name: str) -> Callable[[], bool]:
    """Tells whether torch.compile makes one graph of what calls the function, where nothing is captured."""
    torch: Any = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    if compiler is None:
        return lambda: False

    def ask() -> bool:
        return _in_one_graph(name)

    # Compilers call this while they trace, and take what it returns for a constant.
    asked = compiler.assume_constant_result(ask)
    return lambda: compiler.is_compiling() and asked()


def _in_one_graph(name: str) -> bool:
    convert: Any = sys.modules.get("torch._dynamo.symbolic_convert")
    try:
        tracer = convert.InstructionTranslator.current_tx()
        whole = bool(tracer.one_graph or getattr(tracer, "error_on_graph_break", False))
    except (AttributeError, RuntimeError):
        # Another compiler, or a version that says it elsewhere.
        return False
    if whole:
        problem = f"torch.compile makes one graph of what calls `{name}`, by fullgraph=True"
        hint = "capture the function that is compiled, or compile without fullgraph"
        # While a compiler traces nothing can be raised.
        tell(CaptureError(problem, hint), strict=False)
    return whole


def _captured(
    call: Callable[..., Any],
    described: Callable[[str], Function],
    options: Options,
    parameters: Parameters,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Calls the function, and captures the call as its arguments allow."""
    step = state.step
    if step is None:
        return call(*args, **kwargs)
    strict = options.strict or step.strict
    try:
        given = arguments.read(parameters, args, kwargs, options.build)
        framework = _framework(given)
        made = _call(framework, described(framework), given, options.writes)
        arrays = made.begin()
    except Exception as error:
        tell(error, strict=strict)
        return call(*args, **kwargs)
    again, keywords = given.rebuild(arrays)
    result = call(*again, **keywords)
    try:
        made.returned(result)
    except Exception as error:
        tell(error, strict=strict)
    return result


def describe(named: Any, framework: str, options: Options) -> Function:
    """A function as records know it."""
    return Function(
        name=options.name,
        framework=framework,
        target=find(_without_defaults(named), options.import_as),
        shapes=options.shapes,
        outputs=options.outputs,
        axis=options.axis,
        strict=options.strict,
        harness=options.harness,
        rename=options.rename,
    )


def _call(
    framework: str, function: Function, given: Arguments, writes: Sequence[str]
) -> torch_.Call | numpy_.Call:
    assert state.step is not None
    if framework == "torch":
        return torch_.Call(state.step, function, given, writes)
    return numpy_.Call(state.step, function, given)


def _framework(given: Arguments) -> str:
    values = given.arrays.values()
    if any(tensors.is_torch(value) for value in values):
        return "torch"
    jax: Any = sys.modules.get("jax")
    if jax is not None and any(isinstance(value, jax.core.Tracer) for value in values):
        raise CaptureError(
            "the function is traced by JAX: its arrays have no elements yet",
            "wrap it by capture.jax_function",
        )
    if any(tensors.is_jax(value) for value in values):
        return "jax"
    if any(isinstance(value, (np.ndarray, np.generic)) for value in values):
        return "numpy"
    raise CaptureError("the function is called with no array")


class AutogradFunction:
    """A `torch.autograd.Function` whose `apply` is captured."""

    def __init__(self, function: Any, options: Options) -> None:
        self._function = function
        named = _Apply(function)
        self.apply = _wrap(function.apply, named, options, _forward(function))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class _Apply:
    """`apply` of a function, by the name of the function."""

    def __init__(self, function: Any) -> None:
        self.__module__ = function.__module__
        self.__qualname__ = f"{function.__qualname__}.apply"


def _forward(function: Any) -> Callable[..., Any]:
    """What has the names of the arguments of `apply`."""
    torch: Any = sys.modules["torch"]
    forward: Callable[..., Any] = function.forward
    if function.setup_context is not torch.autograd.Function.setup_context:
        return forward
    parameters = list(signature(forward).parameters.values())[1:]

    def without_context() -> None: ...

    without_context.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return without_context


def _wrap_module(module: Any, options: Options) -> Any:
    forward = module.forward
    described = functools.cache(lambda: describe(type(module), "torch", options))
    parameters = arguments.Parameters(options.parameters, forward)
    captured = undisturb(
        functools.partial(_captured_module, module, forward, described, options, parameters)
    )
    is_sealed = seal(options.name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not state.on or is_sealed():
            return forward(*args, **kwargs)
        return captured(args, kwargs)

    functools.update_wrapper(wrapper, forward)
    module.forward = wrapper
    return module


def _captured_module(
    module: Any,
    forward: Callable[..., Any],
    described: Callable[[], Function],
    options: Options,
    parameters: Parameters,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    step = state.step
    if step is None:
        return forward(*args, **kwargs)
    strict = options.strict or step.strict
    try:
        given = arguments.read(parameters, args, kwargs, options.build)
        build = torch_.built(module, options.import_as, given.names)
        built = torch_.Module(module, build)
        made = torch_.Call(step, _with_problem(described(), build.problem), given, options.writes)
        arrays = made.begin(built)
    except Exception as error:
        tell(error, strict=strict)
        return forward(*args, **kwargs)
    result = built.call(forward, arrays, given)
    try:
        made.returned(result)
    except Exception as error:
        tell(error, strict=strict)
    return result


def _with_problem(function: Function, problem: str | None) -> Function:
    """A function that another process cannot build for this reason, if there is one."""
    if problem is None:
        return function
    return dataclasses.replace(
        function, target=dataclasses.replace(function.target, problem=problem)
    )
