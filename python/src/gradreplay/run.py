"""One replay: tensors in, the harness's function called on the revision's code, tensors out.

Everything here happens in a process that ends with the replay, or makes others of the same tree.
"""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import packages, tensors, triton_interpreter
from .faults import Blame, Fault, Place, judge
from .generators import restored
from .notes import note, said
from .protocol import Answer, Request, say_begun, say_waiting
from .rounding import directed
from .settings import settings
from .signatures import signature
from .tensors import Framework, MissingPackage, Tensor, TensorError, TensorFileError
from .triton_accesses import Recorder
from .triton_order import INDICES, ordered
from .unwritten import filled
from .widening import widened


@dataclass(frozen=True)
class Harness:
    """A function that replays a step, and how it wants to be called."""

    function: Callable[..., Any]
    framework: Framework = "numpy"
    path: tuple[str, ...] = ()
    twins: Mapping[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", "the function")


def replay(harness: Harness, request: Request, program: Path | None) -> int:
    """Makes one replay, writes outputs and answer, and returns the exit code of the process."""
    answer = Answer(twins=dict(harness.twins))
    place = Place(request.tree, roots(request.tree, harness.path), program)
    code = 0
    if request.answer is not None:
        say_waiting(request.answer)
    try:
        outputs = _outputs(harness, request, place, answer)
        tensors.write(request.outputs, outputs)
    except SystemExit as left:
        code = _exit_code(left)
    except Exception as error:
        answer.error = _fault(error, place)
        code = answer.error.exit_code
        sys.stderr.write(f"{answer.error.traceback or answer.error.message}\n")
    if request.precision == "native" and request.rounding == "nearest":
        # Twins have flags of their own, and probes those of this replay.
        answer.settings = settings(harness.framework, request.device)
    answer.notes = said()
    if request.answer is not None:
        answer.write(request.answer)
    return code


def _outputs(harness: Harness, request: Request, place: Place, answer: Answer) -> dict[str, Tensor]:
    given = tensors.read(request.inputs)
    restored.hold(tensors.read_metadata(request.inputs))
    _use_device(harness.framework, request)
    _set_precision(harness.framework, request, given)
    if request.surroundings != "none":
        answer.surroundings = "unsupported" if harness.framework == "jax" else "applied"
    if request.unwritten:
        answer.unwritten = "unsupported" if harness.framework == "jax" else "applied"
    arrays = {
        name: tensors.place(name, tensor, harness.framework, request.device, request.surroundings)
        for name, tensor in given.items()
    }
    arguments = _arguments(harness, arrays, request)
    enter_tree(place)
    before = set(sys.modules)
    triton_interpreter.complete(place, request.device)
    directing = directed(request.rounding, harness.framework, request.device, request.record)
    with directing as rounding:
        if rounding.is_known:
            # The call would tell nothing: it is not made.
            answer.is_waiting = True
            answer.rounding = rounding.obeyed
            return {}
        recorder = Recorder(place) if request.check == "accesses" else None
        with (
            filled(request.unwritten, harness.framework),
            _widened(harness.framework, request),
            _recorded(recorder),
            ordered(request.order) as grids,
        ):
            restored.restore()
            if request.answer is not None:
                say_begun(request.answer)
            result = harness.function(**arguments)
            _finish(harness.framework, request.device, result)
    if request.rounding != "nearest":
        answer.rounding = rounding.obeyed
        answer.other_roundings = rounding.are_others
    if grids.effect == "applied" or request.order != INDICES:
        answer.order = grids.effect
    if recorder is not None:
        answer.accesses = recorder.as_json(arrays, result)
    restored.tell(request.device)
    _tell_strangers(place, set(sys.modules) - before)
    return _taken(harness, result)


def _fault(error: Exception, place: Place) -> Fault:
    if isinstance(error, MissingPackage):
        return Fault("environment", str(error), hint=error.hint)
    if isinstance(error, TensorFileError):
        return Fault("environment", str(error), hint=error.hint)
    if isinstance(error, TensorError):
        # Raised by this package alone, about what the program gave or was given.
        return Fault("program", str(error), hint=error.hint)
    return judge(error, place)


def _exit_code(left: SystemExit) -> int:
    if left.code is None:
        return 0
    if isinstance(left.code, int):
        return left.code & 0xFF
    sys.stderr.write(f"{left.code}\n")
    return 1


# Frameworks


def _use_device(framework: Framework, request: Request) -> None:
    """Tells a framework its device and threads, and refuses a device that is not there."""
    if framework == "numpy":
        return
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        if request.device == "cuda" and not module.cuda.is_available():
            raise Blame("environment", f"torch {module.__version__} sees no GPU")
        if request.threads:
            module.set_num_threads(request.threads)
        return
    if request.device == "cpu" and "JAX_PLATFORMS" not in os.environ:
        module.config.update("jax_platforms", "cpu")
    try:
        module.devices("gpu" if request.device == "cuda" else "cpu")
    except RuntimeError as error:
        raise Blame(
            "environment", f"jax {module.__version__} has no {request.device}: {error}"
        ) from error


def _set_precision(framework: Framework, request: Request, given: Mapping[str, Tensor]) -> None:
    """Lets a framework keep 64-bit elements, and twins their precision."""
    if framework == "jax":
        jax: Any = importlib.import_module("jax")
        if any(tensor.dtype.itemsize == 8 for tensor in given.values()):
            jax.config.update("jax_enable_x64", True)
        if request.precision != "native":
            jax.config.update("jax_default_matmul_precision", "highest")
    elif framework == "torch" and request.precision != "native":
        torch: Any = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False


def _widened(framework: Framework, request: Request) -> AbstractContextManager[None]:
    """Widens casts to float32 in a twin in float64, unless the harness keeps them."""
    if request.precision == "float64" and request.casts == "wide":
        return widened(framework)
    return nullcontext()


def _finish(framework: Framework, device: str, result: object) -> None:
    """Waits for the device, so that what fails there fails here."""
    if framework == "jax":
        importlib.import_module("jax").block_until_ready(result)
    elif framework == "torch" and device == "cuda":
        importlib.import_module("torch").cuda.synchronize()


# The call


def _arguments(harness: Harness, arrays: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """Keyword arguments of the function: the inputs, and of `precision` and `device` what it takes."""
    parameters = signature(harness.function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {
        parameter.name: parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    unknown = sorted(set(arrays) - set(named))
    if unknown and not takes_all:
        raise Blame(
            "program",
            f"`{harness.name}` does not take the input `{unknown[0]}` of replay.toml",
            f"give it a parameter `{unknown[0]}`, or `**_` for all that it does not need",
        )
    arguments = dict(arrays)
    for name, value in (("precision", request.precision), ("device", request.device)):
        if name in named and name not in arrays:
            arguments[name] = value
    for name, parameter in named.items():
        if name not in arguments and parameter.default is parameter.empty:
            raise Blame(
                "program",
                f"`{harness.name}` takes `{name}`, which is not among the inputs",
                f"an input that is optional needs a default: {name}=None",
            )
    return arguments


def _recorded(recorder: Recorder | None) -> AbstractContextManager[None]:
    """Looks at accesses to memory, if there is a recorder."""
    return nullcontext() if recorder is None else recorder.recording()


def _taken(harness: Harness, result: object) -> dict[str, Tensor]:
    """The outputs as tensors; those that are None are absent."""
    if not isinstance(result, Mapping):
        raise Blame(
            "program",
            f"`{harness.name}` returned a {type(result).__name__}, not a dict of outputs by name",
        )
    outputs = {}
    for name, value in result.items():
        if not isinstance(name, str):
            raise Blame("program", f"`{harness.name}` named an output {name!r}, not with a string")
        if value is not None:
            outputs[name] = tensors.take(name, value)
    return outputs


# The tree


def roots(tree: Path, path: Iterable[str] = ()) -> tuple[Path, ...]:
    """The folders of a tree that modules are imported from: those asked for, `src`, and the tree."""
    # An older revision may not have all of them yet.
    folders = [tree / folder for folder in path if (tree / folder).is_dir()]
    source = tree / "src"
    if source.is_dir() and not (source / "__init__.py").exists():
        folders.append(source)
    folders.append(tree)
    return tuple(dict.fromkeys(folders))


def enter_tree(place: Place) -> None:
    """Lets imports find the revision first, and nothing of it beside the program.

    Raises :class:`Blame` if a module of the revision was imported from elsewhere before."""
    _refuse_early(place)
    beside = {os.path.realpath(""), os.path.realpath(place.program.parent if place.program else "")}
    first = [os.fspath(root) for root in place.roots]
    kept = [
        entry for entry in sys.path if os.path.realpath(entry) not in beside and entry not in first
    ]
    sys.path[:] = first + kept
    importlib.invalidate_caches()
    packages.shorten(place)


def _refuse_early(place: Place) -> None:
    # A folder of the tree may be called as a package is that was imported, such as `jax`; only a
    # file that the import would have found makes them the same module.
    offered = {name.partition(".")[0] for root in place.roots for name in os.listdir(root)}
    offered -= {*sys.stdlib_module_names, "gradreplay"}
    # To look at a module copies its pages in a process that has been forked.
    if offered.isdisjoint(sys.modules):
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name.partition(".")[0] not in offered or place.in_tree(file):
            continue
        if place.holds(name):
            raise Blame(
                "program",
                f"`{name}` was imported from {file} before the revision was there: "
                "every revision would replay the same code",
                f"import it inside of the harness's function, and take `{name}` out of `preload`",
            )


def _tell_strangers(place: Place, imported: Iterable[str]) -> None:
    """Notes modules that came neither from the revision nor from the interpreter's packages."""
    known = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    known |= {*site.getsitepackages(), site.getusersitepackages(), triton_interpreter.cache()}
    # Packages that replay has put in the place of the interpreter's.
    known |= {folder for folder in [os.environ.get("REPLAY_PACKAGES")] if folder}
    folders = tuple(os.path.realpath(folder) + os.sep for folder in known)
    for name in sorted(imported):
        file = getattr(sys.modules.get(name), "__file__", None)
        # multiprocessing gives the program a second name.
        if "." in name or not file or place.in_tree(file) or place.in_program(file):
            continue
        if not os.path.realpath(file).startswith(folders):
            note(f"`{name}` was imported from {file}, which is not of the revision")
