"""Programs whose models have steps of their own, as people write them for TensorFlow."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs import DEADLINE

PROGRAMS = Path(__file__).parent


@pytest.mark.parametrize("name", ["digits_gan", "curves_vae", "contrastive_pretraining"])
def test_it_runs_as_a_script(name):
    done = subprocess.run(
        [sys.executable, PROGRAMS / f"{name}.py"], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("ok\n")
