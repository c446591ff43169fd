"""The Python end of replay: a harness for a step in NumPy, PyTorch, JAX or Triton.

import gradreplay as replay

@replay.harness(framework="jax")
def step(logits, targets):
    from mymodel.losses import fused_loss  # of the revision
    ...
    return {"loss": loss, "dlogits": dlogits}

replay.main()
"""

# Any Python can read this file: an old one is told what it lacks.
import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036
    # A folder on PYTHONPATH, which pip did not check.
    version = sys.version.split()[0]
    sys.stderr.write("error: gradreplay needs Python 3.10, this is %s\n" % version)  # noqa: UP031
    sys.exit(126)

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import bisect, blame, diff, env, gradcheck, inspect, log, replay, series, shrink, step
    from .capture.errors import CaptureError
    from .entry import harness, main
    from .errors import ProgramError, ReplayError, RevisionError
    from .fixtures import Fixture, load_fixture, save_fixture
    from .generators import restore_random
    from .notes import note
    from .structures import children, instance, refuse_unnamed, tree_node
    from .tensors import TensorError

__all__ = [
    "CaptureError",
    "Fixture",
    "ProgramError",
    "ReplayError",
    "RevisionError",
    "TensorError",
    "bisect",
    "blame",
    "children",
    "diff",
    "env",
    "gradcheck",
    "harness",
    "inspect",
    "instance",
    "load_fixture",
    "log",
    "main",
    "note",
    "refuse_unnamed",
    "replay",
    "restore_random",
    "save_fixture",
    "series",
    "shrink",
    "step",
    "tree_node",
]

# Imported with the first of their names: a harness needs other modules than a notebook.
_MODULES = {
    "api": (
        "bisect",
        "blame",
        "diff",
        "env",
        "gradcheck",
        "inspect",
        "log",
        "replay",
        "series",
        "shrink",
        "step",
    ),
    "capture.errors": ("CaptureError",),
    "entry": ("harness", "main"),
    "errors": ("ProgramError", "ReplayError", "RevisionError"),
    "fixtures": ("Fixture", "load_fixture", "save_fixture"),
    "generators": ("restore_random",),
    "notes": ("note",),
    "structures": ("children", "instance", "refuse_unnamed", "tree_node"),
    "tensors": ("TensorError",),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            import importlib

            value = getattr(importlib.import_module(__name__ + "." + module), name)
            globals()[name] = value
            return value
    raise AttributeError("module " + repr(__name__) + " has no attribute " + repr(name))


def __dir__() -> list[str]:
    return __all__


if "REPLAY_PROTOCOL" in os.environ:
    from .entry import watch

    watch(os.environ)
