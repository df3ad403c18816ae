"""Train, evaluate or export a canned classifier with four tables, for ``bench.large_tables``.

Arguments: what to do, the rows of a table, the folder, and the global step to train to.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

from muster import feature_column as column
from muster.data import Dataset, TensorSpec
from muster.estimator import (
    DNNClassifier,
    EvalSpec,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    build_raw_serving_input_receiver_fn,
    train_and_evaluate,
)

TABLES, DIM, BATCH, BATCHES = 4, 16, 256, 40
SAVE_STEPS = 4000


class Clock(SessionRunHook):
    """Notes when each step ends, and the first global step."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.times: list[float] = []
        self.steps: list[int] = []

    def after_run(self, run_context, run_values) -> None:
        self.times.append(time.time())
        self.steps.append(run_context.session.global_step)
        # Near a save the disk is busy, and to write here would wait for it: that is no pause of training.
        since = self.steps[-1] % SAVE_STEPS
        if len(self.times) % 100 == 0 and 200 < since < SAVE_STEPS - 200:
            write(self.file, steps=self.steps, times=self.times)

    def end(self, session) -> None:
        write(self.file, steps=self.steps, times=self.times)


def write(file: Path, **figures) -> None:
    """Write figures, and the most memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    part = file.with_suffix(".part")
    part.write_text(json.dumps({**figures, "peak_bytes": peak, "pid": os.getpid()}))
    part.replace(file)


def main() -> None:
    what, rows, folder, steps = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    rng = np.random.default_rng(0)
    ids = {f"id{i}": rng.integers(0, rows, BATCH * BATCHES) for i in range(TABLES)}
    labels = ids["id0"] % 2

    def input_fn():
        return Dataset.from_tensor_slices((ids, labels)).repeat().batch(BATCH)

    columns = [
        column.embedding_column(column.categorical_column_with_identity(name, rows), DIM) for name in ids
    ]
    config = RunConfig(
        str(folder / "model"),
        save_checkpoints_steps=SAVE_STEPS,
        keep_checkpoint_max=2,
        log_step_count_steps=None,
        tf_random_seed=1,
    )
    estimator = DNNClassifier([64], columns, config=config)
    if what == "train":
        name = "{type}-{index}".format(**json.loads(os.environ["TF_CONFIG"])["task"])
        hooks = [Clock(folder / f"{name}.json")]
        spec = TrainSpec(input_fn, max_steps=steps, hooks=hooks)
        train_and_evaluate(estimator, spec, EvalSpec(input_fn, steps=1))
        if name.startswith("ps"):
            write(folder / f"{name}.json")
    elif what == "evaluate":
        metrics = estimator.evaluate(input_fn, steps=BATCHES)
        write(folder / "evaluate.json", **{key: float(value) for key, value in metrics.items()})
    else:
        receiver = build_raw_serving_input_receiver_fn({name: TensorSpec((None,), "int32") for name in ids})
        estimator.export_saved_model(folder / "export", receiver)
        write(folder / "export.json")


if __name__ == "__main__":
    main()
