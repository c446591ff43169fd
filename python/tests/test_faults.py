"""Whose fault it is: the revision's (125), the environment's or the program's (126)."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from replay import Outcome, Project

import gradreplay

ONE = {"x": np.arange(4, dtype=np.float32)}
CALL = """
def step(x):
    from model.losses import loss
    return {"y": loss(x)}
"""


def blamed(done: Outcome) -> tuple[int, str, str]:
    assert done.outputs is None
    return done.code, done.error["fault"], done.error["message"]


def call(project: Project, losses: str, body: str = CALL, top: str = "") -> Outcome:
    project.write_program(body, top=top)
    return project.run(project.inputs(**ONE), project.tree(model__losses=losses))


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ("def loss(x):\n    raise ValueError('odd\\nshape')", "model/losses.py:2: ValueError: odd"),
        (
            "def loss(x):\n    return x.nothing",
            "model/losses.py:2: AttributeError: 'numpy.ndarray' object has no attribute 'nothing'",
        ),
        (
            "def loss(x):\n    return undefined",
            "model/losses.py:2: NameError: name 'undefined' is not defined",
        ),
        ("def loss(x:\n    return x", "model/losses.py:1: SyntaxError: '(' was never closed"),
        ("raise RuntimeError('at import')", "model/losses.py:1: RuntimeError: at import"),
        (
            "def loss(x):\n    return loss(x)",
            "model/losses.py:2: RecursionError: maximum recursion depth exceeded",
        ),
        (
            "def gain(x):\n    return x",
            "replay_step.py:4: ImportError: cannot import name 'loss' from 'model.losses' (model/losses.py)",
        ),
        (
            "from . import other",
            "model/losses.py:1: ImportError: cannot import name 'other' from 'model'",
        ),
        (
            "import model.other",
            "model/losses.py:1: ModuleNotFoundError: No module named 'model.other'",
        ),
        ("raise ImportError('not built')", "model/losses.py:1: ImportError: not built"),
        # Only the harness's line shows that the signature is another one.
        (
            "def loss(x, y):\n    return x",
            "replay_step.py:5: TypeError: loss() missing 1 required positional argument: 'y'",
        ),
    ],
)
def test_code_of_the_revision_that_fails_is_its_fault(
    project: Project, losses: str, message: str
) -> None:
    code, party, told = blamed(call(project, losses))
    assert (code, party) == (125, "revision")
    assert told.startswith(message)


def test_a_revision_without_the_module_cannot_be_tested(project: Project) -> None:
    project.write_program(CALL)
    code, party, told = blamed(project.run(project.inputs(**ONE), project.tree(other="")))
    assert (code, party) == (125, "revision")
    assert told.startswith("neither the revision nor ") and told.endswith(" has a module `model`")


def test_a_revision_without_a_module_of_its_package_cannot_be_tested(project: Project) -> None:
    project.write_program(CALL)
    done = project.run(project.inputs(**ONE), project.tree(model__other=""))
    assert blamed(done) == (
        125,
        "revision",
        "replay_step.py:4: ModuleNotFoundError: No module named 'model.losses'",
    )


def test_an_attribute_that_the_revision_lacks_is_its_fault(project: Project) -> None:
    body = "def step(x):\n    from model import losses\n    return {'y': losses.loss(x)}"
    assert blamed(call(project, "", body))[:2] == (125, "revision")


def test_an_error_inside_of_numpy_is_the_callers(project: Project) -> None:
    losses = "import numpy as np\ndef loss(x):\n    return np.reshape(x, (3, 3))"
    assert blamed(call(project, losses))[:2] == (125, "revision")


def test_the_traceback_ends_with_the_error_and_holds_no_frames_of_the_package(
    project: Project,
) -> None:
    done = call(project, "def loss(x):\n    raise ValueError('odd')")
    lines = done.error["traceback"].splitlines()
    assert lines[-1] == "ValueError: odd"
    assert lines[0] == "Traceback (most recent call last):"
    assert not [line for line in lines if "gradreplay" in line and "File" in line]
    assert done.error["traceback"] in done.stderr


def test_a_long_traceback_keeps_its_last_lines(project: Project) -> None:
    done = call(project, "def loss(x):\n    raise ValueError('a\\n' * 1000 + 'end')")
    lines = done.error["traceback"].splitlines()
    assert (len(lines), lines[-1]) == (40, "end")


def test_memory_that_there_is_not_comes_with_its_limit(project: Project) -> None:
    done = call(project, "import numpy\ndef loss(x):\n    return numpy.ones(10**15)")
    code, fault, message = blamed(done)
    assert (code, fault) == (125, "revision") and "Unable to allocate" in message
    assert "replay --memory" in done.error["hint"]


def test_an_exception_whose_text_fails_is_told(project: Project) -> None:
    losses = """
    class Odd(Exception):
        def __str__(self):
            raise KeyError
    def loss(x):
        raise Odd
    """
    code, party, told = blamed(call(project, losses))
    assert (code, party) == (125, "revision")
    assert told == "model/losses.py:6: Odd: (its text cannot be made)"


# The environment


@pytest.mark.parametrize("package", ["sympy_that_is_missing", "sympy_that_is_missing.core"])
def test_a_package_that_the_revision_needs_and_that_is_missing_is_the_environments_fault(
    project: Project, package: str
) -> None:
    done = call(project, f"import {package}\ndef loss(x):\n    return x")
    code, party, told = blamed(done)
    assert (code, party) == (126, "environment")
    assert told == (
        "model/losses.py:1: ModuleNotFoundError: No module named 'sympy_that_is_missing'"
    )
    assert done.error["hint"].startswith("install the package of `sympy_that_is_missing` for ")
    assert done.error["module"] == "sympy_that_is_missing"


def test_a_package_that_a_package_needs_and_that_is_missing_is_the_environments_fault(
    project: Project, tmp_path: Path
) -> None:
    # The classic trap: torch imports sympy, which is missing, whatever the revision.
    (tmp_path / "site" / "framework").mkdir(parents=True)
    (tmp_path / "site" / "framework" / "__init__.py").write_text("import sympy_that_is_missing\n")
    project.environment["PYTHONPATH"] = os.pathsep.join(
        [str(tmp_path / "site"), project.variables({})["PYTHONPATH"]]
    )
    for losses, body, module in (
        ("import framework\ndef loss(x):\n    return x", CALL, "sympy_that_is_missing"),
        ("", "def step(x):\n    import framework\n    return {'y': x}", None),
    ):
        done = call(project, losses, body)
        assert blamed(done)[:2] == (126, "environment")
        assert done.error.get("module") == module


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from model.losses import loss", "loss(x)"),
        ("from model import losses", "losses.loss(x)"),
        ("from model import loss", "loss(x)"),
        ("import model", "model.loss(x)"),
    ],
)
def test_a_package_ends_where_it_imports_what_is_missing(
    project: Project, imports: str, call: str
) -> None:
    package = "import numpy\nimport sympy_that_is_missing\nfrom .losses import loss\n"
    losses = "def loss(x):\n    return x"
    tree = project.tree(model__losses=losses)
    (tree / "model" / "__init__.py").write_text(package)
    project.write_program(f"def step(x):\n    {imports}\n    return {{'y': {call}}}")
    done = project.run(project.inputs(**ONE), tree)
    told = "ModuleNotFoundError: No module named 'sympy_that_is_missing'"
    assert done.answer is not None
    assert done.answer["notes"] == [f"`model/__init__.py` ends at its line 2: {told}"]
    if "losses" in imports:
        assert done.code == 0, done.stderr
    else:
        # The package would have it, were it not for what is missing.
        assert blamed(done) == (126, "environment", f"model/__init__.py:2: {told}")


def test_a_name_that_an_installed_package_lacks_is_the_environments_fault(project: Project) -> None:
    code, party, told = blamed(call(project, "from numpy import nothing\n"))
    assert (code, party) == (126, "environment")
    assert told.startswith(
        "model/losses.py:1: ImportError: cannot import name 'nothing' from 'numpy'"
    )


def test_an_attribute_that_an_installed_package_lacks_is_the_revisions_fault_with_the_version(
    project: Project,
) -> None:
    # Older revisions may need an older version: a search steps over them.
    at_import = "import numpy\nnumpy.nothing\n"
    removed = "import numpy\nnumpy.float\n"
    when_called = "import numpy\ndef loss(x):\n    return numpy.linalg.nothing(x)"
    every = ((at_import, "numpy"), (removed, "numpy"), (when_called, "numpy.linalg"))
    for losses, name in every:
        done = call(project, losses)
        code, party, told = blamed(done)
        assert (code, party) == (125, "revision")
        assert f"AttributeError: module '{name}' has no attribute '" in told
        assert done.error["hint"] == (
            f"numpy {np.__version__} is installed for {sys.executable}; "
            "the revision may need another version"
        )


def test_a_framework_that_is_missing_is_the_environments_fault(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}", options="(framework='torch')")
    # What is not found must not depend on what is installed here.
    text = "import sys\nsys.modules['torch'] = None\n" + project.program.read_text()
    project.program.write_text(text)
    done = project.run(project.inputs(**ONE))
    assert blamed(done)[:2] == (126, "environment")


def test_bfloat16_without_ml_dtypes_is_the_environments_fault(project: Project) -> None:
    from gradreplay.tensors import DTYPES, Tensor

    project.write_program(
        "def step(x):\n    return {'y': x}", top="import sys\nsys.modules['ml_dtypes'] = None\n"
    )
    given = {"x": Tensor(DTYPES["BF16"], (1,), np.zeros(2, np.uint8))}
    done = project.run(given)
    assert blamed(done) == (
        126,
        "environment",
        "numpy has no bfloat16 without the package ml_dtypes",
    )
    assert done.error["hint"] == "pip install ml_dtypes"


def test_an_import_at_the_top_of_the_program_is_the_environments_fault(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}", top="import missing_package\n")
    code, party, told = blamed(project.run(project.inputs(**ONE)))
    assert (code, party) == (126, "environment")
    assert told == "replay_step.py:2: ModuleNotFoundError: No module named 'missing_package'"


def test_damaged_inputs_are_told_with_their_file(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}")
    (project.root / "half").write_bytes(b"\x10" + b"\0" * 7 + b"{")
    done = project.run(project.inputs(**ONE), inputs=str(project.root / "half"))
    code, _, told = blamed(done)
    assert code == 126
    assert told.startswith(f"cannot read {project.root / 'half'}")


# The program


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def step(x):\n    return x", "`step` returned a ndarray, not a dict of outputs by name"),
        (
            "def step(x):\n    return None",
            "`step` returned a NoneType, not a dict of outputs by name",
        ),
        ("def step(x):\n    return {1: x}", "`step` named an output 1, not with a string"),
        (
            "def step(x):\n    return {'y': 1.5}",
            "`y` is a float, not an array of numpy, torch or jax",
        ),
        (
            "def step(x):\n    return {'y': [x]}",
            "`y` is a list, not an array of numpy, torch or jax",
        ),
        ("def step(x):\n    return {'y': x + 1j}", "`y` is complex64, which is not supported"),
        ("def step():\n    return {}", "`step` does not take the input `x` of replay.toml"),
        ("def step(x, z):\n    return {}", "`step` takes `z`, which is not among the inputs"),
        (
            "def step(x):\n    return {'y': undefined}",
            "replay_step.py:4: NameError: name 'undefined' is not defined",
        ),
        (
            "def step(x):\n    return {'y': x.reshape(3, 3)}",
            "replay_step.py:4: ValueError: cannot reshape array of size 4 into shape (3,3)",
        ),
    ],
)
def test_a_program_that_is_wrong_whatever_the_revision_has_to_be_mended(
    project: Project, body: str, message: str
) -> None:
    project.write_program(body)
    assert blamed(project.run(project.inputs(**ONE))) == (126, "program", message)


def test_a_misspelt_name_in_the_program_is_its_fault_although_the_revision_took_part(
    project: Project,
) -> None:
    body = "def step(x):\n    from model import losses\n    return {'y': undefined}"
    assert blamed(call(project, "", body))[:2] == (126, "program")


def test_a_program_that_is_no_python_is_its_own_fault(project: Project) -> None:
    project.program.write_text("import gradreplay as replay\n(\n")
    done = project.run(project.inputs(**ONE))
    # Python reads a file whole before it runs any of it: nobody is there to answer.
    assert (done.code, done.answer) == (1, None)


def test_an_old_python_can_read_the_file_that_tells_it_so() -> None:
    text = Path(gradreplay.__file__).read_text()
    nodes = ast.walk(ast.parse(text, feature_version=(3, 4)))
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in names and not re.search(r'\bf"', text)


def test_what_the_package_finds_about_a_call_has_no_traceback(project: Project) -> None:
    done = call(project, "", "def step(x):\n    return None")
    assert done.error["message"] == "`step` returned a NoneType, not a dict of outputs by name"
    assert not done.error.get("traceback")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the program marks no function with @replay.harness"),
        (
            "@replay.harness\ndef a(): ...\n@replay.harness\ndef b(): ...\n",
            "the program marks 2 functions with @replay.harness, not one",
        ),
        (
            "@replay.harness(framework='tensorflow')\ndef a(): ...\n",
            "framework `tensorflow` is not known: numpy, torch, jax are",
        ),
    ],
)
def test_a_program_must_mark_one_function(project: Project, text: str, message: str) -> None:
    project.program.write_text(f"import gradreplay as replay\n{text}replay.main()\n")
    assert blamed(project.run(project.inputs(**ONE))) == (126, "program", message)
