"""Captures functions of NumPy's arrays, and of JAX's where nothing is traced: inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import generators, tensors
from . import arguments, host
from .arguments import Arguments
from .kept import Kept
from .provenance import rank
from .record import Function, Record
from .scripts import RESTORE, Lines, results, script
from .session import Step
from .writer import Writer


class Call:
    """One call."""

    def __init__(self, step: Step, function: Function, given: Arguments) -> None:
        self.step = step
        self.function = function
        self.given = given
        self.record: Record
        self.writer: Writer | None = None
        self._before: Kept

    def begin(self) -> dict[str, Any]:
        """Captures the inputs; returns the arrays to call the function with."""
        given = self.given
        inputs = host.inputs(given.arrays, given.numbers, share=self.step.durable)
        self.record = Record(
            function=self.function,
            names=given.names,
            text=given.text,
            imports=given.imports,
            inputs=inputs,
            differentiated=(),
            device=_device(given.arrays),
            random=generators.states(),
            script=_script,
        )
        self.writer = self.step.begin(self.record, self.function, rank())
        if self.writer is not None:
            # A function may write to NumPy's arrays, and then its inputs are outputs, too.
            if not all(tensors.is_jax(array) for array in given.arrays.values()):
                self._before = self.writer.kept_inputs()
            if self.step.durable:
                self.record.forget_inputs(check=self.step.looks)
        return given.arrays

    def returned(self, value: Any) -> None:
        """Captures the outputs."""
        record = self.record
        if self.writer is None:
            return
        changed = [
            name for name, array in self.given.arrays.items() if self._is_written(name, array)
        ]
        found = arguments.Results({}, {})
        if not changed or arguments.holds_array(value):
            found = arguments.read_results(value, self.function.outputs, record.names)
        for name in changed:
            after = record.names.give(f"{name}_after")
            found.arrays[after], found.texts[after] = self.given.arrays[name], name
        size = sum(int(array.nbytes) for array in found.arrays.values())
        self.step.check_size(record, size)
        self.step.bytes += size
        outputs: dict[str, host.Taken] = {}
        for name, array in found.arrays.items():
            record.keep(outputs, name, array)
        record.result_texts = found.texts
        record.outputs, record.returned = outputs, True

    def _is_written(self, name: str, array: Any) -> bool:
        if tensors.is_jax(array):
            # Nobody can write to those.
            return False
        return not self._before.same(name, host.take(name, array).tensor.data)


def _device(arrays: Mapping[str, Any]) -> str:
    """The device of the first array that has one: those of NumPy are the processor's."""
    for value in arrays.values():
        if tensors.is_jax(value):
            device = min(value.devices(), key=lambda device: int(device.id))
            kind, platform = device.device_kind, device.platform
            return "cpu" if platform == "cpu" else f"{kind} ({platform})"
    return "cpu"


def _script(record: Record) -> str:
    body = []
    imports = ["import numpy as np"]
    for name, taken in record.inputs.items():
        if taken.view:
            imports = ["import ml_dtypes", "import numpy as np"]
            body.append(f"{name} = {name}.view(ml_dtypes.{taken.view})")
    body += [RESTORE, f"result = {record.function.target.expression}({record.text})"]
    body += results(record)
    viewed = [name for name, taken in (record.outputs or {}).items() if taken.view]
    body += [f'results["{name}"] = results["{name}"].view(np.uint8)' for name in viewed]
    return script(record, Lines(imports, [*body, "return results"]))
