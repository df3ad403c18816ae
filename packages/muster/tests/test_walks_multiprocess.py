"""What docs/architecture.md says of the files that values go through, beside what a profile of them says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS
from walks import walk_of

pytestmark = pytest.mark.processes

# In the architecture, and without the value in their hands: they say when, or see its bytes alone.
AROUND = {
    "checkpoint": {
        "estimator/hooks/_checkpoint_saver.py",
        "checkpoint/_arrays.py",
        "checkpoint/_manifest.py",
        "_remote.py",
    },
    "run": {"distribute/functions/_traced_calls.py"},
    "worker": set(),
    "server": set(),
}


@pytest.fixture(scope="module")
def found():
    child = Path(__file__).with_name("walk_child.py")
    environ = os.environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS}
    done = subprocess.run(
        [sys.executable, child], env=environ, capture_output=True, text=True, timeout=2 * DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("walk", "beginning"),
    [
        ("checkpoint", "A variable goes into a checkpoint"),
        ("run", "A batch goes through `strategy.run`"),
        ("worker", "A gradient goes from a worker to a parameter server"),
        ("server", "On the server the way continues"),
    ],
)
def test_a_value_goes_through_the_files_that_are_named_and_at_most_ten(found, walk, beginning):
    logs = {"_event_log.py"}  # it calls what it logs
    named = set(re.findall(r"`([a-z_/]+\.py)`", walk_of(beginning)))
    assert {*found[walk]} - logs == named - AROUND[walk]
    assert len(named) <= 10
