"""Training under mpirun."""

import os
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: apt-get install openmpi-bin"),
]

PROGRAM = """\
import numpy as np
from muster import keras
from muster.distribute import MultiWorkerMirroredStrategy
strategy = MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
x = np.arange(32.0).reshape(8, 4).astype("float32") / 32
history = model.fit(x, x.sum(axis=1), batch_size=4, epochs=2, verbose=0, shuffle=False)
task = strategy.cluster_resolver.task_id
print(f"task {task} of {strategy.num_replicas_in_sync}: {history.history['loss'][-1]:.6f}", flush=True)
"""


def test_mpirun_trains_one_model(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if name not in ("TF_CONFIG", "XLA_FLAGS")}
    done = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, program],
        env={**environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # Open MPI may join lines of its processes.
    told = sorted(re.findall(r"task (\d) of 2: ([\d.]+)", done.stdout))
    assert [task for task, _ in told] == ["0", "1"], done.stdout
    assert told[0][1] == told[1][1]
