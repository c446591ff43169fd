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

from .generators import restore_random
from .harness import harness, main, watch
from .notes import note
from .structures import children, instance, tree_node

__all__ = ["children", "harness", "instance", "main", "note", "restore_random", "tree_node"]

if "REPLAY_PROTOCOL" in os.environ:
    watch(os.environ)
