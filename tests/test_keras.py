"""How Keras is imported: in a process of its own, which has not imported it yet."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc
{before}
collections = []
gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
told = gc.isenabled(), gc.get_freeze_count() > 0
import jax
del collections[:]
import muster._keras
assert told[1] or 2 not in collections, collections
assert (gc.isenabled(), gc.get_freeze_count() > 0) == told
"""


@pytest.mark.parametrize("before", ["", "gc.disable()", "gc.freeze()"])
def test_no_full_collection_runs_meanwhile_and_the_collector_is_left_as_it_was(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before)], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
