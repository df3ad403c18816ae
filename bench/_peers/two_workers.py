"""Share the guide's model, its initial weights and its images among the contestants of ``bench.workers``.

A contestant runs once for each worker, with ``TF_CONFIG``. Its arguments are the number of steps and the
folder for its report: JSON with the losses of the first ``CHECK_STEPS`` steps, and the other steps' seconds.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

BATCH = 64  # of a worker
CHECK_STEPS = 50
LEARNING_RATE = 0.01
WORKER = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
STEPS, FOLDER = int(sys.argv[1]), Path(sys.argv[2])


def data(worker=WORKER):
    """Return images and labels of ``CHECK_STEPS`` batches, which a worker repeats."""
    rng = np.random.default_rng(worker)
    images = rng.random((BATCH * CHECK_STEPS, 28, 28, 1), dtype=np.float32)
    return images, rng.integers(0, 10, len(images)).astype(np.int32)


def kernel(shape, dtype=None, **_):
    """Return initial weights, as an initializer for Keras 2 and 3; equal shapes get equal weights."""
    fan_in = np.prod(shape[:-1])
    draw = np.random.default_rng(len(shape)).standard_normal(tuple(shape), np.float32)
    return draw / np.sqrt(fan_in, dtype=np.float32)


def report(losses, seconds):
    """Write this worker's losses, and the time of its last steps."""
    told = {"losses": [float(loss) for loss in losses], "seconds": seconds}
    (FOLDER / f"{WORKER}.json").write_text(json.dumps(told))
