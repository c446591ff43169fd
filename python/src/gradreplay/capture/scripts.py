"""The text of drafted `replay_step.py` files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .record import Record

# The line before the call: what builds the function may have drawn random numbers.
RESTORE = "replay.restore_random()"


@dataclass(frozen=True)
class Lines:
    """The parts of a script that differ between frameworks; `body` is the function's, unindented."""

    imports: Sequence[str]
    body: Sequence[str]
    # What the function is told besides its inputs.
    parameters: Sequence[str] = ()


def script(record: Record, lines: Lines) -> str:
    """The whole script."""
    function = record.function
    target = function.target
    arguments = [*record.inputs]
    arguments += [f"{record.upstream_names[name]}=None" for name in record.flowing()]
    arguments += ["*", *lines.parameters] if lines.parameters else []
    options = [f'framework="{function.framework}"']
    if target.folder not in (None, ".", "src"):
        options.append(f'path=["{target.folder}"]')
    text = [
        f'"""Calls `{target.expression}` as the training called it. Drafted: edit it as you like."""',
        "",
        "import gradreplay as replay",
        "",
        "",
        f"@replay.harness({', '.join(options)})",
        f"def step({', '.join(arguments)}):",
    ]
    body = list(lines.imports)
    if target.problem is not None:
        body.append(f"# Mend this line: {target.problem}.")
    body.append(target.statement)
    body += ["", *lines.body]
    text += [f"    {line}" if line else "" for line in body]
    text += ["", "", 'if __name__ == "__main__":', "    replay.main()", ""]
    return "\n".join(text)


def results(record: Record) -> Iterable[str]:
    """The lines that gather the outputs from `result`."""
    yield "results = {"
    for name, text in record.result_texts.items():
        yield f'    "{name}": {text},'
    yield "}"
