"""A worker of an elastic job whose loop others can join, or a process with all of its replicas.

Run by test_elastic_loops_of_checkpoints_multiprocess.py. Arguments: a folder for reports, the steps, the
seconds that a step takes at least until there is a file "quick" in the folder, and the seed of a shuffle, or
"none". WITHOUT_METRIC says that the Checkpoint lacks the metric, WITHOUT_SKIP that the data begins anew, and
WITH_HANDLER that a PreemptionCheckpointHandler runs the steps. A line of a report is "<step> <loss in
hexadecimal> <a metric in hexadecimal>".
"""

import json
import logging
import os
import sys
import time

import numpy as np

import muster_tensorflow as tf

PER_PASS = 5


def main(folder, steps, secs, seed):
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(relativeCreated)d %(message)s")
    strategy = tf.distribute.MultiWorkerMirroredStrategy(virtual_replicas=4, deterministic=True)
    tf.keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(PER_PASS * 16, 5)).astype(np.float32), rng.integers(0, 3, PER_PASS * 16)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input((5,)),
                tf.keras.layers.Dense(64, activation="relu"),
                tf.keras.layers.Dropout(0.5),
                tf.keras.layers.Dense(3),
            ]
        )
        optimizer = tf.keras.optimizers.Adam(0.01)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        done = tf.Variable(0, dtype=tf.int64)
    losses = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            logits = model(features, training=True)
            loss = tf.reduce_sum(losses(labels, logits)) / 16
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss

    @tf.function
    def train_step(batch):
        return strategy.reduce("SUM", strategy.run(step, args=(batch,)), axis=None)

    @tf.function
    def step_of_iterator(iterator):
        return strategy.reduce("SUM", strategy.run(step, args=(next(iterator),)), axis=None)

    objects = {"model": model, "optimizer": optimizer, "done": done}
    if "WITHOUT_METRIC" not in os.environ:
        objects["accuracy"] = accuracy
    checkpoint = tf.train.Checkpoint(**objects)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    name = f"{task['type']}-{task['index']}"
    run = None
    if "WITH_HANDLER" in os.environ:
        saved = os.path.join(folder, "saved")
        handler = tf.distribute.experimental.PreemptionCheckpointHandler(None, checkpoint, saved)
        run = handler.run
    else:
        manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, f"of-{name}"), max_to_keep=1)
        checkpoint.restore(manager.latest_checkpoint)
    seed = None if seed == "none" else int(seed)  # without one, the job has one
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(50, seed=seed).batch(16).repeat()
    if "WITHOUT_SKIP" not in os.environ:
        data = data.skip(int(done))
    iterator = iter(strategy.experimental_distribute_dataset(data))
    with open(os.path.join(folder, name), "a", buffering=1) as report:
        while int(done) < int(steps):
            if run is not None:
                assert handler.total_run_calls == int(done)
                loss = run(train_step, next(iterator))
            elif int(done) % 3:
                loss = train_step(next(iterator))
            else:
                loss = step_of_iterator(iterator)
            report.write(f"{int(done)} {float(loss).hex()} {float(accuracy.result()).hex()}\n")
            done.assign_add(1)
            print(int(done), flush=True)
            if not os.path.exists(os.path.join(folder, "quick")):
                time.sleep(float(secs))


if __name__ == "__main__":
    main(*sys.argv[1:])
