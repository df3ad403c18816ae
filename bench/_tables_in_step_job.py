"""Train a model with a large table as one of two workers, or devices, in step: ``KIND ROWS STEPS FOLDER``."""

import json
import os
import sys
import time
from pathlib import Path

kind, rows, steps, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
DIM, BATCH, SKIPPED = 16, 256, 20
name, _, optimizer = kind.partition(" ")
if name == "tensorflow":
    import tensorflow as tf
else:
    import muster_tensorflow as tf
import numpy as np  # noqa: E402

rank = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
rng = np.random.default_rng(0)
ids = rng.integers(0, rows, 20 * BATCH)
numbers = rng.random((len(ids), 8), dtype=np.float32)
labels = ids % 2
seen = []


def estimator() -> None:
    """A canned DNNClassifier, whose optimizer is Adagrad."""

    class Clock(tf.estimator.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(time.perf_counter())

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"id": ids, "x": numbers}, labels)).repeat().batch(BATCH)

    column = tf.feature_column.categorical_column_with_identity("id", rows)
    columns = [
        tf.feature_column.embedding_column(column, DIM),
        tf.feature_column.numeric_column("x", shape=(8,)),
    ]
    config = tf.estimator.RunConfig(
        os.path.join(folder, str(rank)),
        save_checkpoints_steps=10**7,
        log_step_count_steps=10**6,
        train_distribute=tf.distribute.experimental.MultiWorkerMirroredStrategy(),
    )
    trained = tf.estimator.DNNClassifier([64], columns, n_classes=2, config=config)
    spec = tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=[Clock()])
    tf.estimator.train_and_evaluate(trained, spec, tf.estimator.EvalSpec(input_fn, steps=1))


def fit() -> None:
    """A Keras model with a table of the same size."""
    from muster import keras
    from muster.distribute import MirroredStrategy, MultiWorkerMirroredStrategy

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(time.perf_counter())

    devices = ["/cpu:0", "/cpu:1"]
    strategy = MirroredStrategy(devices) if name == "mirrored" else MultiWorkerMirroredStrategy()
    with strategy.scope():
        words, x = keras.Input((1,), dtype="int32"), keras.Input((8,))
        rows_of = keras.layers.Flatten()(keras.layers.Embedding(rows, DIM)(words))
        hidden = keras.layers.Dense(64, "relu")(keras.layers.Concatenate()([rows_of, x]))
        model = keras.Model([words, x], keras.layers.Dense(2)(hidden))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(getattr(keras.optimizers, optimizer)(0.05), loss)
    order = np.arange(2 * BATCH * steps) % len(ids)
    features, clock = [ids[order, None].astype(np.int32), numbers[order]], Clock()
    model.fit(features, labels[order], batch_size=2 * BATCH, verbose=0, callbacks=[clock])


if __name__ == "__main__":
    {"tensorflow": estimator, "Estimator": estimator, "fit": fit, "mirrored": fit}[name]()
    if rank == 0:
        rate = (len(seen) - 1 - SKIPPED) / (seen[-1] - seen[SKIPPED])
        Path(folder, "rate.json").write_text(json.dumps(rate))
