"""Real processes: killed while they save, and refused by the system."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_child import check

from muster.checkpoint import list_checkpoints, restore_latest

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("checkpoint_child.py")
DEADLINE = 60.0


def start(directory: Path, count: int, log: Path) -> subprocess.Popen[str]:
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, CHILD, directory, str(count)], stdout=subprocess.PIPE, stderr=errors, text=True
        )


def kill_while_saving(directory: Path, secs: float, log: Path) -> int:
    """Starts a process, kills it so long after its first save, and returns the last save it told of."""
    with start(directory, 0, log) as process:
        first = process.stdout.readline()
        try:
            code = process.wait(secs)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait(DEADLINE)
        lines = (first + process.stdout.read()).splitlines()
    assert code == -9, f"exit code {code}: {log.read_text()}"
    return int(lines[-1].split()[1])


def kill_again_and_again(tmp_path: Path, kills: int, seed: int) -> None:
    delays = random.Random(seed)
    directory, log = tmp_path / "model", tmp_path / "log"
    numbers = []
    for _ in range(kills):
        told = kill_while_saving(directory, delays.uniform(0, 0.08), log)
        checkpoint = restore_latest(directory)
        assert checkpoint is not None
        step, number = check(checkpoint)
        # What was told to be on the disk is there; at most the save after it may be, too.
        assert number in (told, told + 1)
        assert step == number // 2
        numbers.append(number)
    assert numbers == sorted(set(numbers))
    # The next save tidies up: whole directories of two files each are left.
    with start(directory, 2, log) as process:
        process.stdout.read()
        assert process.wait(DEADLINE) == 0, log.read_text()
    assert len(list_checkpoints(directory)) == 2
    assert sorted(len(os.listdir(directory / name)) for name in os.listdir(directory)) == [2, 2]


def test_killed_while_saving(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=5, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_while_saving_fifty_times(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=50, seed=2)


def test_a_process_that_ends_finishes_the_save_under_way(tmp_path: Path) -> None:
    """Without close or wait, as after an error."""
    code = (
        "import sys, numpy, muster.checkpoint as c;"
        "c.Checkpointer(sys.argv[1]).save(3, {'w': numpy.ones(1 << 22)}, {})"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, timeout=DEADLINE)
    checkpoint = restore_latest(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 3


def test_a_save_that_the_system_cuts_off(tmp_path: Path) -> None:
    """A limit on the size of files: the system writes a part, then refuses."""
    code = """
import os, resource, sys
import numpy as np
from muster import CheckpointError
from muster.checkpoint import Checkpointer
checkpointer = Checkpointer(sys.argv[1])
checkpointer.save(1, {"w": np.ones(10)}, {}, wait=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
try:
    checkpointer.save(2, {"w": np.ones(1_000_000)}, {}, wait=True)
except CheckpointError as exc:
    print(exc)
print(sorted(set(os.listdir(sys.argv[1])) - {"writer.lock"}))
checkpointer.save(3, {"w": np.ones(10)}, {}, wait=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        check=True,
        timeout=DEADLINE,
        stdout=subprocess.PIPE,
        text=True,
    )
    message, names = done.stdout.splitlines()
    assert "ckpt-2 was not written: File too large. It needs 8000000 bytes" in message
    assert names == "['ckpt-1']"
    assert [info.step for info in list_checkpoints(tmp_path)] == [1, 3]
