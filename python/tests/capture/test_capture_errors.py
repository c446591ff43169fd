"""What cannot be captured: told once, and the training goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import array, names

from gradreplay import capture


def double(x: Any) -> Any:
    return x + x


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_name_that_is_taken_is_refused_at_once() -> None:
    capture.function(double, name="loss")
    with pytest.raises(capture.CaptureError) as error:
        capture.function(double, name="loss")
    assert str(error.value) == "two captured functions are called `loss`"
    assert error.value.hint == "give each a name of its own: name=..."


def test_a_path_that_no_folder_can_have_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    Path("file").write_text("")
    wrapped = capture.function(double)
    for step in range(3):
        with capture.step("file/fixtures", step=step, when=capture.every(1)):
            assert wrapped(np.ones(1)) == 2
    assert len(messages(caplog)) == 1
    assert messages(caplog)[0] == "not captured: NotADirectoryError: file is no folder"


def test_a_folder_that_nobody_may_write_is_told(caplog: pytest.LogCaptureFixture) -> None:
    Path(".").chmod(0o711)
    Path("sealed").mkdir(mode=0o555)
    wrapped = capture.function(double)
    user = os.geteuid()
    if user == 0:
        # Root may write everywhere: this is somebody else's turn, and the folder is root's.
        os.seteuid(65534)
    try:
        with capture.step("sealed/step{step}", step=0):
            assert wrapped(np.ones(1)) == 2
    finally:
        os.seteuid(user)
    assert "PermissionError" in messages(caplog)[0]
    assert list(Path("sealed").iterdir()) == []


def test_strict_steps_raise_what_others_tell() -> None:
    wrapped = capture.function(double)
    with pytest.raises(capture.CaptureError, match="cannot hold|no fixture can hold"):
        with capture.step("fixtures", step=0, strict=True):
            wrapped([object()])


def test_an_argument_that_no_fixture_can_hold_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def ignore(x: Any, config: Any) -> Any:
        return x

    wrapped = capture.function(ignore)
    with capture.step("fixtures/step{step}", step=0):
        wrapped(np.ones(1), object())
    assert messages(caplog) == [
        "not captured: argument `config` is of type object, which no fixture can hold "
        "(hint: capture a function of arrays, numbers, texts and what holds them: tuples, lists, dicts, "
        "dataclasses, objects with attributes, registered pytrees)"
    ]


def test_a_call_without_arrays_and_a_result_without_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrapped = capture.function(lambda *args: None, name="none", import_as="losses:none")
    with capture.step("fixtures/step{step}", step=0):
        wrapped("text")
        wrapped(np.ones(1))
    assert messages(caplog) == [
        "not captured: the function is called with no array",
        "not captured: the function returned a NoneType, which holds no array",
    ]
    assert names() == ["step0"], "the inputs were on the disk before it returned"


def test_complex_numbers_and_objects_are_told(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double)
    with capture.step("fixtures/step{step}", step=0):
        wrapped(np.ones(1, np.complex64))
    assert messages(caplog) == ["not captured: `x` is complex64, which is not supported"]
    assert names() == []


def test_a_fixture_that_is_there_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double)
    for value in (1.0, 2.0):
        with capture.step("fixtures/step{step}", step=7, when=capture.every(1)):
            wrapped(np.full(2, value))
    assert messages(caplog) == [
        "not captured: fixtures/step7 holds a fixture already, which stays as it is "
        "(hint: delete it, or name the steps of this run differently)"
    ]
    assert array("fixtures/step7/inputs.safetensors", "x").tolist() == [1, 1]


def test_an_unknown_field_of_the_path_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double)
    with capture.step("fixtures/{stpe}", step=7):
        assert wrapped(np.ones(1)) == 2
    assert messages(caplog) == [
        "not captured: the path fixtures/{stpe} holds {stpe} "
        "(hint: known are {call}, {name}, {rank}, {step})"
    ]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("fixtures/{", "Single '{' encountered in format string"),
        ("fixtures/step}", "Single '}' encountered in format string"),
        ("fixtures/{step:letters}", "Invalid format specifier"),
        ("fixtures/{step:{width}}", "'width'"),
    ],
)
def test_a_path_that_is_no_format_is_told(
    path: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped = capture.function(double)
    with capture.step(path, step=7):
        assert wrapped(np.ones(1)) == 2
    assert len(messages(caplog)) == 1
    start = f"not captured: no name can be made of the path {path}: {problem}"
    assert messages(caplog)[0].startswith(start)


def test_a_step_inside_a_step_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double)
    with capture.step("a/step{step}", step=1), capture.step("b/step{step}", step=2):
        wrapped(np.ones(1))
    assert names("a") == ["step1"] and names("b") == []
    assert "step 2 begins inside step 1" in messages(caplog)[0]


def test_shapes_that_do_not_fit_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def add(x: Any, y: Any) -> Any:
        return x

    wrapped = capture.function(add, shapes={"x": "batch", "y": "batch"})
    with capture.step("fixtures/step{step}", step=0):
        wrapped(np.ones(3), np.ones(4))
        wrapped(np.ones((3, 1)), np.ones(4))
        wrapped(np.ones(3), 5)
    assert messages(caplog) == [
        "not captured: batch is 3 by `x`, but 4 by `y`",
        "not captured: shapes gives `x` 1 dimensions, but it has 2: [3, 1]",
        "not captured: shapes gives `y` 1 dimensions, but it has 0: []",
    ]
    assert names() == []


def test_parts_that_change_another_size_are_told(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double, shapes={"x": "tokens width"}, axis="tokens")
    with capture.step("fixtures/step{step}", step=0):
        for rows in [(2, 3), (1, 3), (2, 4)]:
            wrapped(np.ones(rows))
    assert messages(caplog) == [
        "not captured: `x` of `double` changes its shape between the calls of a step: "
        "['tokens', 3] and ['tokens', 4] "
        "(hint: parts may differ in tokens only; without axis each call is a fixture)"
    ]


def test_an_axis_that_no_input_has_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = capture.function(double, axis="tokens")
    with capture.step("fixtures/step{step}", step=0):
        wrapped(np.ones(2))
    assert messages(caplog) == [
        "not captured: no input of `double` has the size tokens, along which its calls are parts "
        '(hint: name the sizes: shapes={"logits": ("tokens", "vocab")})'
    ]


def test_a_full_disk_leaves_whole_fixtures_only_and_the_training_goes_on(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import resource, signal
        import numpy as np
        from gradreplay import capture
        # A file that grows beyond this fails as it does on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        copy = capture.function(np.copy, name="f", parameters=["x"])
        for step, count in enumerate([10, 100_000, 20, 90_000]):
            with capture.step("fixtures/step{step}", step=step, when=capture.every(1)):
                copy(np.zeros(count))
        print("trained")
        """
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "trained\n", done.stderr
    assert "File too large" in done.stderr and done.stderr.count("not captured") == 1
    assert names() == ["step0", "step2"]
    assert "cannot write fixtures/step1/inputs.safetensors: File too large" in done.stderr
    leftovers = [path.name for path in Path("fixtures").iterdir() if "step1" in path.name]
    assert leftovers == []
