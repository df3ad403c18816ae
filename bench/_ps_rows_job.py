"""Train a canned Estimator with large tables beside parameter servers: ``KIND ROWS STEPS FOLDER``."""

import json
import os
import resource
import sys
import time
from pathlib import Path

kind, rows, steps, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
DIM, BATCH, SKIPPED = 16, 256, 100
if kind.startswith("tensorflow"):
    import tensorflow as tf
else:
    import muster_tensorflow as tf
import numpy as np  # noqa: E402

task = json.loads(os.environ["TF_CONFIG"])["task"]
name = f"{task['type']}-{task['index']}"
rng = np.random.default_rng(0)
COUNT = 80 * BATCH
FEATURES = {
    "id": rng.integers(0, rows, COUNT),
    "other": rng.integers(0, rows, COUNT),
    "x": rng.random((COUNT, 8), dtype=np.float32),
}
LABELS = FEATURES["id"] % 2
seen = []


SLEEP_SECS = float(os.environ.get("SLEEP_SECS", "0"))  # after each step
TRAINERS = int(os.environ.get("TRAINERS", "0"))  # how many wait for each other after their first step


class Clock(tf.estimator.SessionRunHook):
    def after_run(self, run_context, run_values):
        if not seen and TRAINERS:
            (folder / f"{name}.started").touch()
            while len([*folder.glob("*.started")]) < TRAINERS:
                time.sleep(0.05)
        seen.append(time.time())
        if SLEEP_SECS:  # else the call would still give the processor away
            time.sleep(SLEEP_SECS)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).repeat().batch(BATCH)


def estimator():
    """The embedding alone with Adagrad; or wide and deep: Ftrl on hashed and crossed columns, beside it."""
    column = tf.feature_column
    deep = [
        column.embedding_column(column.categorical_column_with_identity("id", rows), DIM),
        column.numeric_column("x", shape=(8,)),
    ]
    config = tf.estimator.RunConfig(
        str(folder / "model"), save_checkpoints_steps=10**7, log_step_count_steps=10**6, tf_random_seed=1
    )
    if not kind.endswith("wide and deep"):
        return tf.estimator.DNNClassifier([64], deep, n_classes=2, config=config)
    hashed = column.categorical_column_with_hash_bucket("other", rows, dtype=tf.int64)
    crossed = column.crossed_column(["id", "other"], rows)
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[hashed, crossed],
        dnn_feature_columns=deep,
        dnn_hidden_units=[64],
        dnn_optimizer="Adagrad",
        n_classes=2,
        config=config,
    )


if __name__ == "__main__":
    spec = tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=[Clock()])
    tf.estimator.train_and_evaluate(estimator(), spec, tf.estimator.EvalSpec(input_fn, steps=1))
    figures = {"MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if SLEEP_SECS:
        figures["times"] = seen
    elif len(seen) > SKIPPED + 1:
        figures["rate"] = (len(seen) - 1 - SKIPPED) / (seen[-1] - seen[SKIPPED])
    (folder / f"{name}.json").write_text(json.dumps(figures))
