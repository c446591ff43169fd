"""Memory that nobody has written holds the pattern that replay asks for."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import need
from replay import Project

from gradreplay import unwritten

PATTERN = bytes.fromhex("a57fa57fa57fa57f")


def test_memory_of_numpy_is_filled_for_a_while() -> None:
    known = np.empty
    with unwritten.filled(PATTERN, "numpy"):
        assert np.empty((3, 5), np.uint16).tolist() == [[0x7FA5] * 5] * 3
        assert np.empty_like(np.zeros((2, 3), np.int32).T).tolist() == [[0x7FA57FA5] * 2] * 3
        assert np.empty(3, np.uint8).tolist() == [0xA5, 0x7F, 0xA5]
        assert np.empty(2, object).tolist() == [None, None]
        assert np.zeros(2).tolist() == [0, 0]
    assert np.empty is known


def test_memory_of_torch_is_filled_for_a_while() -> None:
    need("torch")
    torch = pytest.importorskip("torch")
    known = torch.empty
    with unwritten.filled(PATTERN, "torch"):
        x = torch.zeros(2, 3)
        for made in (
            torch.empty(2, 3),
            torch.empty_like(x.T),
            torch.empty_strided((2, 3), (1, 2)),
            x.new_empty(2, 3),
            torch.empty(2, 3, requires_grad=True),
        ):
            assert (made.detach().view(torch.int32) == 0x7FA57FA5).all()
        assert torch.empty(3, dtype=torch.uint8).tolist() == [0xA5, 0x7F, 0xA5]
        assert torch.empty(0).shape == (0,)
        torch.empty(2, dtype=torch.bool).any()

        @torch.jit.script
        def scripted(n: int):  # type: ignore[no-untyped-def]
            return torch.empty([n])

        assert scripted(3).shape == (3,)
        assert (
            torch.func.vmap(lambda row: torch.empty_like(row).copy_(row))(x).tolist() == x.tolist()
        )
    assert torch.empty is known


def test_a_replay_says_whether_it_fills(project: Project) -> None:
    body = """
    def step(x):
        import numpy
        y = numpy.empty(4, numpy.float32)
        y[:3] = x[:3]
        return {"y": y}
    """
    project.write_program(body)
    given = project.inputs(x=np.ones(4, np.float32))
    done = project.run(given, unwritten=PATTERN.hex())
    assert done.answer == {"unwritten": "applied"}
    assert done.array("y").view(np.uint32).tolist() == [0x3F800000] * 3 + [0x7FA57FA5]
    assert project.run(given).answer == {}
    done = project.run(given, unwritten="a5")
    assert (done.code, done.error["fault"]) == (126, "environment")


def test_jax_has_no_such_memory(project: Project) -> None:
    need("jax")
    project.write_program("def step(x):\n    return {'y': x}", options="(framework='jax')")
    done = project.run(project.inputs(x=np.ones(4, np.float32)), unwritten=PATTERN.hex())
    assert done.answer == {"unwritten": "unsupported"}
