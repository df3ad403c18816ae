"""Use a table in a checkpoint for ``bench.table_memory``.

Arguments: what to do, the folder, and the number of rows. ``write`` writes the checkpoint, and prints JSON.
"""

import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np

import muster
from muster._checkpoint_commands import inspect_checkpoints
from muster._keras import keras
from muster.checkpoint import read_checkpoint, write_checkpoint
from muster.data import Dataset, TensorSpec
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    ModeKeys,
    PredictOutput,
    RunConfig,
    build_raw_serving_input_receiver_fn,
)
from muster.saved_model import load

COLUMNS, IDS, BATCH, BATCHES = 100, 4, 256, 20


def model_fn(features, labels, mode, params):
    rows = keras.layers.Embedding(params, COLUMNS, name="table")(features["id"])
    logits = keras.layers.Dense(1, name="out")(keras.ops.mean(rows, 1))[:, 0]
    if mode == ModeKeys.PREDICT:
        outputs = {"serving_default": PredictOutput({"logits": logits})}
        return EstimatorSpec(mode, predictions={"logits": logits}, export_outputs=outputs)
    loss = keras.ops.mean(keras.ops.square(logits - labels))
    if mode == ModeKeys.EVAL:
        return EstimatorSpec(mode, loss=loss)
    step = muster.minimize(keras.optimizers.Adagrad(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step)


def examples(rows, batches=BATCHES):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, rows, (BATCH * batches, IDS)).astype("int32")
    return Dataset.from_tensor_slices(({"id": ids}, rng.normal(size=len(ids)).astype("float32"))).batch(BATCH)


def write(folder, rows):
    """Write a checkpoint like that of a small model that was trained, with many rows."""
    few = 1000
    small = Estimator(model_fn, os.path.join(folder, "small"), RunConfig(), few)
    small.train(lambda: examples(few, 1))
    variables = read_checkpoint(small.latest_checkpoint()).variables
    spare = []
    for name, value in variables.items():
        if value.shape[:1] == (few,):
            spare.append(os.path.join(folder, f"array-{len(spare)}"))
            variables[name] = np.memmap(spare[-1], value.dtype, "w+", shape=(rows, *value.shape[1:]))
    path = write_checkpoint(os.path.join(folder, "model"), 1, variables, {})
    for each in spare:
        os.unlink(each)
    size = sum(entry.stat().st_size for entry in os.scandir(path))
    print(json.dumps({"table": variables["table/embeddings"].nbytes, "checkpoint": size}))


def serve(folder, rows):
    """Ask a loaded model as `muster serve` does, ten times as often as an evaluation reads batches."""
    (version,) = os.listdir(folder)
    signature = load(os.path.join(folder, version)).signatures["serving_default"]
    for _ in range(10):
        for features, _ in examples(rows):
            signature(id=np.asarray(features["id"]))


def main():
    how, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    model_dir = os.path.join(folder, "model")
    if how == "write":
        return write(folder, rows)
    if how == "serve":
        return serve(os.path.join(folder, "export"), rows)
    estimator = Estimator(model_fn, model_dir, RunConfig(), rows)
    match how:
        case "start":
            estimator.get_variable_names()
        case "evaluate":
            estimator.evaluate(lambda: examples(rows))
        case "predict":
            for _ in estimator.predict(lambda: examples(rows)):
                pass
        case "export":
            receiver = build_raw_serving_input_receiver_fn({"id": TensorSpec((None, IDS), "int32")})
            estimator.export_saved_model(os.path.join(folder, "export"), receiver)
        case "inspect":
            inspect_checkpoints(model_dir, step=None, variables=True, restore=False)
        case "warm_start":
            config = RunConfig(save_checkpoints_secs=None, save_checkpoints_steps=None)
            started = Estimator(model_fn, os.path.join(folder, "started"), config, rows, model_dir)
            started.train(lambda: examples(rows), steps=1)


if __name__ == "__main__":
    main()
