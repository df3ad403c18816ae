"""What the contestants of ``bench.jobs`` share: the guide's images, and a log of the steps.

Arguments of each: the folder for the log and for checkpoints, the number of steps, after how many of them to
save, and how long to sleep after each, in seconds. A worker's log is ``WORKER.jsonl``: a line for each step
up to ``CHECK_STEPS``, and one for the last.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

BATCH = 64  # of a worker
CHECK_STEPS = 60
BATCHES = 80  # of a worker, each another: more than CHECK_STEPS
LEARNING_RATE = 0.01


def arguments():
    """Return what the command line says: folder, steps, save_steps, pause_secs."""
    folder, steps, save_steps, pause_secs = sys.argv[1:5]
    return Path(folder), int(steps), int(save_steps), float(pause_secs)


def data():
    """Return images, labels, and the number of each example."""
    rng = np.random.default_rng(0)
    images = rng.random((2 * BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    return images, labels, np.arange(len(images), dtype=np.int32)


class Log:
    """A worker's log."""

    def __init__(self, folder, worker, steps, pause_secs):
        self._path, self._steps, self._pause_secs = folder / f"{worker}.jsonl", steps, pause_secs

    def wants(self, step):
        """Whether this step, counted from 1, is noted: what is noted waits for the step."""
        return step <= CHECK_STEPS or step == self._steps

    def note(self, step, first):
        """Note that a step is done, and the number of the first example of its batch."""
        status = Path("/proc/self/status").read_text()
        line = {
            "step": step,
            "when": time.time(),
            "pid": os.getpid(),
            "first": int(first),
            "peak_kib": int(status.partition("VmHWM:")[2].split()[0]),
        }
        with self._path.open("a") as file:
            print(json.dumps(line), file=file)
        time.sleep(self._pause_secs)
