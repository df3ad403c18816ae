"""A custom loop that meets a label that is no class. Run by test_labels_in_steps_multiprocess.py.

Argument: JSON: step (of the wrong label), steps, and worker (whose batch has it).
"""

import json
import sys

import numpy as np

import muster
from muster import keras
from muster.distribute import MultiWorkerMirroredStrategy, function

PER_WORKER = 4


def main(options):
    strategy = MultiWorkerMirroredStrategy()
    rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
        optimizer = keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(features, labels):
        with muster.GradientTape() as tape:
            loss = keras.ops.sum(loss_of(labels, model(features))) / (PER_WORKER * size)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @function
    def train(features, labels):
        strategy.run(step, args=(features, labels))

    for number in range(options["steps"]):
        labels = np.arange(PER_WORKER)
        if number == options["step"] and rank == options["worker"]:
            labels[1] = 5
        train(np.ones((PER_WORKER, 3), np.float32), labels)
        print(f"step {number}\n", end="", flush=True)
    print("trained")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
