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

from .generators import restore_random
from .harness import harness, main, watch
from .notes import note
from .structures import children, instance, tree_node

if TYPE_CHECKING:
    from .api import bisect, blame, diff, gradcheck, inspect, log, replay, series
    from .errors import ProgramError, ReplayError, RevisionError

__all__ = [
    "ProgramError",
    "ReplayError",
    "RevisionError",
    "bisect",
    "blame",
    "children",
    "diff",
    "gradcheck",
    "harness",
    "inspect",
    "instance",
    "log",
    "main",
    "note",
    "replay",
    "restore_random",
    "series",
    "tree_node",
]

# A harness needs none of these, and is imported for each replay.
_MODULES = {
    "api": ["bisect", "blame", "diff", "gradcheck", "inspect", "log", "replay", "series"],
    "errors": ["ProgramError", "ReplayError", "RevisionError"],
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            import importlib

            value: object = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "REPLAY_PROTOCOL" in os.environ:
    watch(os.environ)
