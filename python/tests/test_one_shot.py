"""One process for each replay: what goes in, what comes out, and the exit code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replay import Project

from gradreplay import tensors
from gradreplay.tensors import DTYPES, Layout, Tensor

ONE = {"x": np.arange(4, dtype=np.float32)}


def test_a_harness_is_called_with_the_inputs_and_its_dict_is_the_outputs(project: Project) -> None:
    project.write_program(
        "def step(x, scale):\n    return {'y': x * scale, 'n': np.int32(len(x))}",
        top="import numpy as np\n",
    )
    done = project.run(project.inputs(**ONE, scale=np.float32(2)))
    assert done.code == 0, done.stderr
    np.testing.assert_array_equal(done.array("y"), [0, 2, 4, 6])
    assert done.array("n").dtype == np.int32
    assert done.answer == {}


def test_every_dtype_goes_through_unchanged(project: Project) -> None:
    project.write_program("def step(**inputs):\n    return inputs")
    values = np.arange(6).reshape(2, 3) % 2
    given = {
        f"x{name}": tensors.take("x", values.astype(dtype.numpy()))
        for name, dtype in DTYPES.items()
    }
    done = project.run(given)
    assert done.code == 0, done.stderr
    assert done.outputs is not None
    for name, tensor in given.items():
        assert done.outputs[name].dtype == tensor.dtype
        assert done.outputs[name].data.tobytes() == tensor.data.tobytes()


def test_strides_of_the_metadata_are_those_of_the_array(project: Project) -> None:
    project.write_program(
        "def step(x):\n    return {'s': np.array(x.strides), 'y': x}", top="import numpy as np\n"
    )
    packed = np.arange(6, dtype=np.float32)
    given = Tensor(DTYPES["F32"], (2, 3), packed.view(np.uint8), Layout((1, 2), 6))
    done = project.run({"x": given})
    assert done.array("s").tolist() == [4, 8]
    assert done.array("y").ravel().tolist() == packed.tolist()


def test_precision_and_device_are_passed_to_a_function_that_takes_them(project: Project) -> None:
    project.write_program(
        """
        def step(x, *, precision, device):
            print(precision, device)
            return {"y": x}
        """
    )
    assert project.run(project.inputs(**ONE)).stdout == "native cpu\n"
    assert project.run(project.inputs(**ONE), precision="float64").stdout == "float64 cpu\n"


def test_an_absent_optional_input_is_the_default(project: Project) -> None:
    project.write_program(
        "def step(x, mask=None):\n    return {'y': x if mask is None else x * mask}"
    )
    assert project.run(project.inputs(**ONE)).array("y").tolist() == [0, 1, 2, 3]


def test_an_output_that_is_none_is_absent(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x, 'z': None}")
    done = project.run(project.inputs(**ONE))
    assert done.outputs is not None
    assert list(done.outputs) == ["y"]


def test_a_function_may_be_imported_and_called_as_it_is(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}", options="(framework='numpy')")
    text = project.program.read_text().replace("replay.main()", "print(step(3))")
    project.program.write_text(text)
    assert project.run(project.inputs(**ONE)).stdout == "{'y': 3}\n"


# The tree


def test_imports_find_the_tree_first_and_its_src_before_its_root(project: Project) -> None:
    tree = project.tree(src__model__losses="scale = 3\n", model__losses="scale = 5\n")
    project.write_program(
        "def step(x):\n    from model.losses import scale\n    return {'y': x * np.float32(scale)}",
        top="import numpy as np\n",
    )
    assert project.run(project.inputs(**ONE), tree).array("y").tolist() == [0, 3, 6, 9]


def test_folders_that_the_harness_names_come_before_all(project: Project) -> None:
    tree = project.tree(python__model="scale = 7\n", model="scale = 5\n")
    project.write_program(
        "def step(x):\n    from model import scale\n    return {'y': x * np.float32(scale)}",
        options="(path=['python', 'not_there_yet'])",
        top="import numpy as np\n",
    )
    assert project.run(project.inputs(**ONE), tree).array("y").tolist() == [0, 7, 14, 21]


def test_what_lies_beside_the_program_does_not_stand_in_for_the_revision(project: Project) -> None:
    (project.root / "harness" / "model.py").write_text("scale = 9\n")
    project.write_program("def step(x):\n    import model\n    return {'y': x}")
    done = project.run(project.inputs(**ONE))
    assert (done.code, done.error["fault"]) == (125, "revision")


def test_helpers_beside_the_program_can_be_imported_before(project: Project) -> None:
    (project.root / "harness" / "helper.py").write_text("def same(x):\n    return x\n")
    project.write_program(
        "def step(x):\n    return {'y': same(x)}", top="from helper import same\n"
    )
    assert project.run(project.inputs(**ONE)).code == 0


def test_a_module_of_the_revision_that_came_from_elsewhere_is_the_programs_fault(
    project: Project,
) -> None:
    (project.root / "harness" / "model.py").write_text("")
    tree = project.tree(model="")
    project.write_program("def step(x):\n    return {'y': x}", top="import model\n")
    done = project.run(project.inputs(**ONE), tree)
    assert done.code == 126
    assert done.error["fault"] == "program"
    assert "every revision would replay the same code" in done.error["message"]


def test_a_folder_of_the_revision_may_be_called_as_a_package_is(project: Project) -> None:
    tree = project.tree(numpy__kernels="", safetensors__tests="")
    project.write_program("def step(x):\n    return {'y': x}")
    assert project.run(project.inputs(**ONE), tree).code == 0


def test_a_submodule_of_the_revision_that_came_from_elsewhere_is_the_programs_fault(
    project: Project,
) -> None:
    (project.root / "harness" / "model").mkdir()
    (project.root / "harness" / "model" / "losses.py").write_text("")
    tree = project.tree(src__model__losses="")
    project.write_program("def step(x):\n    return {'y': x}", top="import model.losses\n")
    done = project.run(project.inputs(**ONE), tree)
    assert (done.code, done.error["fault"]) == (126, "program")
    assert done.error["message"].startswith("`model.losses` was imported from ")


def test_a_module_from_some_other_folder_is_noted(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "stray.py").write_text("")
    project.write_program(
        "def step(x):\n    import stray\n    return {'y': x}",
        top=f"import sys\nsys.path.append({str(tmp_path / 'elsewhere')!r})\n",
    )
    answer = project.run(project.inputs(**ONE)).answer
    assert answer is not None
    [line] = answer["notes"]
    assert line.startswith("`stray` was imported from ")


def test_the_second_name_that_multiprocessing_gives_the_program_is_no_stranger(
    project: Project,
) -> None:
    body = """
def step(x):
    import multiprocessing

    return {"y": x}
"""
    project.write_program(body)
    assert project.run(project.inputs(**ONE)).answer == {}


def test_modules_that_triton_has_compiled_are_no_strangers(project: Project) -> None:
    cache = project.root / "triton"
    cache.mkdir()
    (cache / "launcher.py").write_text("")
    project.environment["TRITON_CACHE_DIR"] = str(cache)
    project.write_program(
        """
        def step(x):
            sys.path.append(os.environ["TRITON_CACHE_DIR"])
            import launcher
            return {"y": x}
        """,
        top="import os, sys\n",
    )
    done = project.run(project.inputs(x=np.ones(1, np.float32)))
    assert (done.code, done.answer) == (0, {})


def test_notes_are_handed_on_once(project: Project) -> None:
    project.write_program(
        "def step(x):\n    replay.note('a\\n line')\n    replay.note('a line')\n    return {'y': x}"
    )
    assert project.run(project.inputs(**ONE)).answer == {"notes": ["a line"]}


def test_twins_that_the_harness_names_are_in_the_answer(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}", options="(twins={'y': False})")
    assert project.run(project.inputs(**ONE), precision="float64").answer == {"twins": {"y": False}}


def test_settings_are_told_of_the_plain_replay_alone(project: Project) -> None:
    project.write_program(
        "def step(x):\n    os.environ['MKL_CBWR'] = 'AVX2'\n    return {'y': x}", top="import os\n"
    )
    plain = project.run(project.inputs(**ONE))
    assert plain.settings is not None and plain.settings["MKL_CBWR"] == "AVX2", plain
    assert project.run(project.inputs(**ONE), precision="float64").settings is None
    assert project.run(project.inputs(**ONE), rounding="up").settings is None


# Surroundings


READS_BEHIND = """
def step(x):
    # One element too far, as a kernel with a wrong stride reads.
    wide = np.lib.stride_tricks.as_strided(x, (len(x) + 1,), x.strides)
    return {"inside": x.sum(), "outside": wide.sum()}
"""


@pytest.mark.parametrize("name", ["F16", "BF16", "F32", "F64"])
def test_nan_around_a_tensor_shows_a_read_outside(project: Project, name: str) -> None:
    project.write_program(READS_BEHIND, top="import numpy as np\n")
    given = {"x": tensors.take("x", np.ones(4).astype(DTYPES[name].numpy()))}
    zero, nan = (project.run(given, surroundings=mode) for mode in ("zero", "nan"))
    assert zero.answer == nan.answer == {"surroundings": "applied"}
    assert zero.array("inside").tobytes() == nan.array("inside").tobytes()
    assert float(zero.array("outside")) == 4
    assert np.isnan(float(nan.array("outside")))


# Rounding


def test_numpy_rounds_as_asked(project: Project) -> None:
    project.write_program(
        "def step(x):\n    return {'y': x / np.float32(3)}", top="import numpy as np\n"
    )
    given = project.inputs(x=np.array([1, -1], np.float32))
    done = {mode: project.run(given, rounding=mode) for mode in ("nearest", "down", "up", "zero")}
    assert done["nearest"].answer == {}
    assert all(done[mode].answer == {"rounding": "applied"} for mode in ("down", "up", "zero"))
    patterns = {mode: done[mode].array("y").view(np.uint32).tolist() for mode in done}
    below, above, sign = 0x3EAAAAAA, 0x3EAAAAAB, 0x80000000
    assert patterns == {
        "nearest": [above, sign | above],
        "down": [below, sign | above],
        "up": [above, sign | below],
        "zero": [below, sign | below],
    }


def test_a_revision_that_sets_the_mode_back_is_detected(project: Project) -> None:
    project.write_program(
        "def step(x):\n    ctypes.CDLL(None).fesetround(0)\n    return {'y': x / 3}",
        top="import ctypes\n",
    )
    assert project.run(project.inputs(**ONE), rounding="up").answer == {"rounding": "reset"}


# Outcomes that are no result


def test_exit_codes_of_the_revision_are_the_programs(project: Project) -> None:
    for left, code in (("7", 7), ("None", 0), ("'no'", 1), ("125", 125), ("-1", 255)):
        project.write_program(f"def step(x):\n    raise SystemExit({left})")
        done = project.run(project.inputs(**ONE))
        assert (done.code, done.outputs) == (code, None)


def test_a_signal_is_the_programs(project: Project) -> None:
    project.write_program("def step(x):\n    os.kill(os.getpid(), 9)", top="import os\n")
    done = project.run(project.inputs(**ONE))
    assert (done.code, done.outputs, done.answer) == (-9, None, {"call": "begun"})


def test_threads_that_never_end_do_not_keep_the_process(project: Project) -> None:
    project.write_program(
        """
        def step(x):
            threading.Thread(target=time.sleep, args=(1000,)).start()
            return {"y": x}
        """,
        top="import threading, time\n",
    )
    assert project.run(project.inputs(**ONE)).code == 0


def test_outputs_that_cannot_be_written_are_an_error_that_names_the_file(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}")
    done = project.run(project.inputs(**ONE), outputs=str(project.root / "nowhere" / "outputs"))
    assert done.code == 126
    assert done.error["fault"] == "environment"
    assert "cannot write" in done.error["message"] and "nowhere" in done.error["message"]


def test_a_function_that_changes_its_inputs_changes_its_own_copy(project: Project) -> None:
    project.write_program("def step(x):\n    x += 1\n    return {'y': x}")
    given = project.inputs(**ONE)
    assert [project.run(given).array("y").tolist() for _ in range(2)] == [[1, 2, 3, 4]] * 2


def test_megabytes_of_output_are_no_harm(project: Project) -> None:
    project.write_program("def step(x):\n    print('x' * 5_000_000)\n    return {'y': x}")
    done = project.run(project.inputs(**ONE))
    assert (done.code, len(done.stdout)) == (0, 5_000_001)


# Started by hand, or by another replay


def test_without_replay_the_program_says_who_starts_it(project: Project) -> None:
    project.write_program("def step(x):\n    return {'y': x}")
    done = project.run(project.inputs(**ONE), without=("REPLAY_PROTOCOL",))
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: this program is started by replay, which tells it what to do\n"
        "hint: replay FIXTURE, with `program` in replay.toml naming this file\n"
    )


@pytest.mark.parametrize(
    ("modes", "without", "message"),
    [
        ({"protocol": "2"}, (), "replay speaks version 2 of the protocol, gradreplay 1"),
        ({}, ("REPLAY_INPUTS",), "replay did not say where the inputs are"),
        (
            {"rounding": "odd"},
            (),
            "replay asked for rounding `odd`: nearest, down, up, zero, passed, recorded, "
            "recorded_inside, straight, held are known",
        ),
        (
            {"precision": "half"},
            (),
            "replay asked for precision `half`: native, float32, float64 are known",
        ),
    ],
)
def test_a_replay_that_is_not_understood_is_the_environments_fault(
    project: Project, modes: dict[str, str], without: tuple[str, ...], message: str
) -> None:
    project.write_program("def step(x):\n    return {'y': x}")
    done = project.run(project.inputs(**ONE), without=without, **modes)
    assert (done.code, done.error["fault"], done.error["message"]) == (126, "environment", message)


def test_variables_that_frameworks_read_are_set_unless_the_user_did(project: Project) -> None:
    project.write_program(
        "def step(x):\n    print(*(os.environ.get(name) for name in NAMES))\n    return {'y': x}",
        top="""
        import os
        NAMES = ["TRITON_INTERPRET", "JAX_PLATFORMS", "NPROC", "JAX_COMPILATION_CACHE_DIR"]
        """,
    )
    cache = project.root / "cache" / "gradreplay" / "jax"
    assert project.run(project.inputs(**ONE), threads="3").stdout == f"1 cpu 3 {cache}\n"
    project.environment = {
        "TRITON_INTERPRET": "0",
        "JAX_PLATFORMS": "gpu",
        "JAX_COMPILATION_CACHE_DIR": "/c",
    }
    assert project.run(project.inputs(**ONE)).stdout == "0 gpu None /c\n"


def test_replay_is_told_before_the_call_that_it_is_to_come_and_then_that_it_began(
    project: Project,
) -> None:
    project.write_program(
        """
        def step(x):
            print(read())
            return {"y": x}
        """,
        top="""
        import os
        from pathlib import Path

        import gradreplay

        def read():
            return Path(os.environ["REPLAY_ANSWER"]).read_text()

        print(read())
        """,
    )
    done = project.run(project.inputs(**ONE))
    assert done.code == 0, done.stderr
    assert done.stdout == '{"call":"waiting"}\n{"call":"begun"}\n'
    assert done.answer == {}


def test_a_process_of_the_programs_own_does_not_take_the_call_back(project: Project) -> None:
    project.write_program(
        """
        def step(x):
            subprocess.run([sys.executable, "-c", "import gradreplay"], check=True)
            print(Path(os.environ["REPLAY_ANSWER"]).read_text())
            return {"y": x}
        """,
        top="import os, subprocess, sys\nfrom pathlib import Path\n",
    )
    assert project.run(project.inputs(**ONE)).stdout == '{"call":"begun"}\n'
