"""What one call of a captured function told, and the harness that it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import draft, host, surroundings
from .arguments import Names
from .draft import Input, Output, Plan, Shape
from .errors import CaptureError
from .host import Taken
from .imports import Imported
from .staged import Staged
from .target import Target

ShapeNames = Mapping[str, str | tuple[str | int, ...]]


@dataclass(frozen=True)
class Function:
    """A function that is captured, and how."""

    name: str
    framework: str
    target: Target
    # Names of sizes, by input.
    shapes: ShapeNames
    outputs: Sequence[str] | None = None
    # The size along which calls of one step are parts of one fixture.
    axis: str | None = None
    strict: bool = False
    # A harness of the user's; `None` to draft one.
    harness: Path | None = None
    # Other names for gradients.
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Record:
    """One call: what it was given, and then what it gave."""

    function: Function
    names: Names
    # The arguments as a script writes them.
    text: str
    inputs: dict[str, Taken]
    # Inputs whose gradients are asked for.
    differentiated: tuple[str, ...]
    device: str
    script: Callable[[Record], str]
    # The states of random generators at the call, as they stand in the metadata of its inputs.
    random: Mapping[str, str] = field(default_factory=dict)
    # What the script imports for the arguments.
    imports: Imported = Imported()
    # Parts of the script that depend on the call, and so are part of what a harness fits.
    variant: str = ""
    result_texts: dict[str, str] = field(default_factory=dict)
    # Inputs that the function changes in place, and whose gradients are asked for.
    changed: tuple[str, ...] = ()
    # Known before the function has returned where it was traced, and then without elements.
    outputs: dict[str, Taken] | None = None
    returned: bool = False
    # By the outputs into which they flow.
    upstream: dict[str, Taken] = field(default_factory=dict)
    upstream_names: dict[str, str] = field(default_factory=dict)
    # By the inputs with respect to which they are.
    gradients: dict[str, Taken] = field(default_factory=dict)
    gradient_names: dict[str, str] = field(default_factory=dict)
    # The outputs that can have an upstream gradient.
    differentiable: tuple[str, ...] = ()
    closed: bool = False
    # Whether an input that no gradient reached has one of zeros, where upstream gradients came.
    zeros: bool = False
    # The bytes of the inputs, and whether one of them holds a NaN or an infinity.
    size: int = 0
    nonfinite: bool = False
    # Where outputs go as they come; `None` while nobody knows whether they are wanted.
    staged: Staged | None = None
    _waiting: list[tuple[dict[str, Taken], str, host.Wait]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = sum(taken.tensor.data.nbytes for taken in self.inputs.values())

    def name_gradients(self) -> None:
        """Gives names to the gradients that may come, once the outputs are known."""
        self.upstream_names = {name: self._gradient_name(name) for name in self.differentiable}
        if self.differentiable:
            self.gradient_names = {name: self._gradient_name(name) for name in self.differentiated}

    def _gradient_name(self, name: str) -> str:
        wanted = f"grad_{name}"
        return self.names.give(self.function.rename.get(wanted, wanted))

    def keep(self, group: dict[str, Taken], name: str, value: Any) -> None:
        """Puts an array into one of the groups of this record: into the file, or a copy of it, which a device
        makes while training goes on."""
        if self.staged is not None and host.is_here(value):
            taken = host.take(name, value)
            place = self.staged.add(taken.tensor)
            group[name] = replace(host.without_elements(taken), place=place)
            return
        group[name], wait = host.later(name, value)
        if wait is not None:
            self._waiting.append((group, name, wait))

    def settle(self) -> None:
        """Waits for the copies that are under way."""
        while self._waiting:
            group, name, wait = self._waiting.pop()
            group[name] = wait()

    def forget_inputs(self, check: bool) -> None:
        """Lets go of the inputs' elements, which are on the disk; checks them first if asked to."""
        self.nonfinite = check and not all(taken.finite() for taken in self.inputs.values())
        self.inputs = {name: host.without_elements(taken) for name, taken in self.inputs.items()}

    def forget_upstream(self, name: str, check: bool) -> None:
        """Lets go of the elements of an upstream gradient that is on the disk, as of inputs."""
        taken = self.upstream[name]
        self.nonfinite = self.nonfinite or (check and not taken.finite())
        self.upstream[name] = host.without_elements(taken)

    def expected(self) -> dict[str, Taken]:
        """Outputs and gradients, by the harness's names."""
        self.settle()
        outputs = dict(self.outputs or {}) if self.returned else {}
        return outputs | {self.gradient_names[name]: one for name, one in self.gradients.items()}

    def finite(self) -> bool:
        """Whether no tensor so far holds a NaN or an infinity."""
        groups = (self.inputs, self.upstream, self.expected())
        return not self.nonfinite and all(
            taken.finite() for group in groups for taken in group.values()
        )

    @property
    def settled(self) -> bool:
        """Whether all gradients are here. A call without any fits the harness of those with gradients."""
        return self.closed and bool(self.gradients or (self.zeros and self.upstream))

    def flowing(self) -> tuple[str, ...]:
        """The outputs with an upstream gradient: those that had one, or may have one still."""
        return tuple(
            name for name in self.differentiable if not self.settled or name in self.upstream
        )

    def returned_gradients(self) -> tuple[str, ...]:
        """The inputs whose gradients the harness returns."""
        names = tuple(self.gradient_names)
        wanted = self.zeros or not self.settled
        return tuple(name for name in names if wanted or name in self.gradients)

    def plan(self) -> Plan:
        """The harness that this call fits, by what is known so far."""
        shapes = self._input_shapes()
        inputs = tuple(
            Input(name, taken.dtype, shapes[name]) for name, taken in self.inputs.items()
        )
        results = _ResultShapes(shapes, self.inputs)
        return Plan(
            title=f"How to call `{self.function.target.expression}` as the training called it.",
            framework=self.function.framework,
            repository=self.function.target.repository,
            call=(self.text, self.imports, self.variant, self.differentiated, self.function.target),
            inputs=inputs,
            upstream=self._upstream(results),
            outputs=self._outputs(results),
            script=lambda: self.script(self),
            tree=self._tree,
            returned=self.outputs is not None,
        )

    def _tree(self) -> tuple[str, ...]:
        target = self.function.target
        # A function of a library may be called by anything in the repository.
        if target.repository is None or target.folder is None:
            return ()
        statements = (target.statement, *self.imports.statements)
        needed = tuple(statement.split()[1] for statement in statements)
        return surroundings.loaded_tree(target.repository, needed)

    def _upstream(self, results: _ResultShapes) -> tuple[Input, ...]:
        outputs = self.outputs or {}
        return tuple(
            Input(self.upstream_names[name], outputs[name].dtype, results.of(outputs[name]), True)
            for name in self.flowing()
        )

    def _outputs(self, results: _ResultShapes) -> tuple[Output, ...]:
        if self.outputs is None:
            return (Output("not_known_yet", "f32", ()),)
        plain = [
            Output(name, taken.dtype, results.of(taken)) for name, taken in self.outputs.items()
        ]
        flowing = self.flowing()
        gradients = []
        for name in self.returned_gradients():
            wrt = self.inputs[name]
            output = Output(self.gradient_names[name], wrt.dtype, results.shapes[name])
            if wrt.is_float:
                upstream = tuple(self.upstream_names[of] for of in flowing)
                output = replace(output, gradient_of=name, of=tuple(flowing), upstream=upstream)
            gradients.append(output)
        return (*plain, *gradients)

    def _input_shapes(self) -> dict[str, Shape]:
        given = self.function.shapes
        unknown = [name for name in given if name not in self.inputs]
        if unknown:
            known = ", ".join(self.inputs)
            raise CaptureError(f"shapes names `{unknown[0]}`, but the inputs are {known}")
        sizes: dict[str, tuple[int, str]] = {}
        shapes: dict[str, Shape] = {}
        for name, taken in self.inputs.items():
            found = taken.tensor.shape
            if name not in given:
                shapes[name] = tuple(
                    self._size_name(f"{name}_{axis}") for axis in range(len(found))
                )
                continue
            shapes[name] = draft.names_of(given[name], name)
            check_shape(name, shapes[name], found, sizes)
        return shapes

    def _size_name(self, wanted: str) -> str:
        while wanted in self.names.taken:
            wanted += "_"
        return wanted


def check_shape(
    name: str, declared: Shape, found: tuple[int, ...], sizes: dict[str, tuple[int, str]]
) -> None:
    """Refuses a tensor that has not the shape declared, and notes its sizes."""
    if len(declared) != len(found):
        raise CaptureError(
            f"shapes gives `{name}` {len(declared)} dimensions, but it has {len(found)}: {list(found)}"
        )
    for size, value in zip(declared, found, strict=False):
        if isinstance(size, int):
            if size != value:
                raise CaptureError(
                    f"shapes says {size} for a dimension of `{name}` that has {value}"
                )
            continue
        known = sizes.setdefault(size, (value, name))
        if known[0] != value:
            raise CaptureError(f"{size} is {known[0]} by `{known[1]}`, but {value} by `{name}`")


class _ResultShapes:
    """Names the dimensions of results after those of the inputs that have the same sizes."""

    def __init__(self, shapes: dict[str, Shape], inputs: dict[str, Taken]) -> None:
        self.shapes = shapes
        self._sizes: dict[int, str | int] = {}
        self._whole: dict[tuple[int, ...], Shape] = {}
        for name, shape in shapes.items():
            found = inputs[name].tensor.shape
            self._whole.setdefault(found, shape)
            for size, value in zip(shape, found, strict=True):
                if isinstance(size, str):
                    self._sizes.setdefault(value, size)

    def of(self, taken: Taken) -> Shape:
        """The shape of a result: that of an input like it, or else dimension by dimension."""
        found = taken.tensor.shape
        whole = self._whole.get(found)
        return whole if whole is not None else tuple(self._sizes.get(n, n) for n in found)
