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
    called = record.function.target.expression
    text = [
        f'"""Calls `{called}` as the training called it. Drafted: edit it as you like."""',
        "",
        "import gradreplay as replay",
        "",
        "",
        decorator([record]),
        *function(record, lines, "step"),
        *MAIN,
    ]
    return "\n".join(text)


# The end of a script.
MAIN = ("", "", 'if __name__ == "__main__":', "    replay.main()", "")


def decorator(records: Sequence[Record]) -> str:
    """The line before the function that replays calls of one framework."""
    options = [f'framework="{records[0].function.framework}"']
    folders = dict.fromkeys(
        folder
        for record in records
        for folder in (record.function.target.folder, *record.imports.folders)
    )
    paths = [f'"{folder}"' for folder in folders if folder not in (None, ".", "src")]
    if paths:
        options.append(f"path=[{', '.join(paths)}]")
    return f"@replay.harness({', '.join(options)})"


def function(record: Record, lines: Lines, name: str) -> list[str]:
    """The lines of the function `name` that makes one call."""
    target = record.function.target
    arguments = [*record.inputs]
    arguments += [f"{record.upstream_names[name]}=None" for name in record.flowing()]
    arguments += ["*", *lines.parameters] if lines.parameters else []
    body = list(lines.imports)
    if target.problem is not None:
        body.append(f"# Mend this line: {target.problem}.")
    body += [target.statement, *record.imports.statements]
    body = [*dict.fromkeys(body), "", *lines.body]
    return [f"def {name}({', '.join(arguments)}):", *map(indented, body)]


def indented(line: str) -> str:
    """A line, or a statement of several, one level deeper."""
    return "\n".join(f"    {part}" if part else "" for part in line.split("\n"))


def results(record: Record) -> Iterable[str]:
    """The lines that gather the outputs from `result`."""
    if record.outputs is None:
        yield "# Name what the function returns, here and in replay.toml, in the place of this line."
        yield "replay.refuse_unnamed()"
    yield "results = {"
    for name, text in record.result_texts.items():
        yield f'    "{name}": {text},'
    yield "}"
