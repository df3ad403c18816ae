"""Training under mpirun: that of Open MPI, which the system has, and MPICH's, which is a wheel."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROGRAM = """\
import numpy as np
from muster import keras
from muster.distribute import MultiWorkerMirroredStrategy
strategy = MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
x = np.arange(32.0).reshape(8, 4).astype("float32") / 32
history = model.fit(x, x.sum(axis=1), batch_size=4, epochs=2, verbose=0, shuffle=False)
task = strategy.cluster_resolver.task_id
print(f"task {task} of {strategy.num_replicas_in_sync}: {history.history['loss'][-1]:.6f}", flush=True)
"""


def of_open_mpi():
    if (found := shutil.which("mpirun")) is None:
        pytest.skip("needs mpirun: apt-get install openmpi-bin")
    return [found, "--allow-run-as-root", "--oversubscribe"]


def of_mpich():
    found = Path(sys.executable).with_name("mpiexec.hydra")
    if not found.exists():
        pytest.skip("needs MPICH: make test-engines")
    return [found]


def run(launcher, *command):
    environ = {name: value for name, value in os.environ.items() if name not in ("TF_CONFIG", "XLA_FLAGS")}
    done = subprocess.run(
        [*launcher, "-n", "2", *command],
        env={**environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("launcher", [of_open_mpi, of_mpich])
def test_mpirun_trains_one_model(launcher, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    said = run(launcher(), sys.executable, program)
    # Lines of two processes may be joined.
    told = sorted(re.findall(r"task (\d) of 2: ([\d.]+)", said))
    assert [task for task, _ in told] == ["0", "1"], said
    assert told[0][1] == told[1][1]


@pytest.mark.parametrize("launcher", [of_open_mpi, of_mpich])
def test_processes_of_a_job_meet_at_one_port_and_those_of_another_at_another(launcher):
    where = ["sh", "-c", f"{sys.executable} -m muster where; true"]  # not the launcher's own child
    ports = [re.findall(r"They meet at 127\.0\.0\.1:(\d+)", run(launcher(), *where)) for _ in range(2)]
    (first, also_first), (second, also_second) = ports
    assert first == also_first != second == also_second
