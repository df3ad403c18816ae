"""Evaluations of a model of scikit-learn's 1,797 digits.

As a program it is one worker of a job; argument: JSON: the directory of the model.
"""

import importlib.util
import json
import sys

import numpy as np

from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

COUNT = 1797
# How many examples a batch of all workers has, and how many batches are taken (None: all).
CASES = ((192, None), (192, 4), (6000, None))


def model_fn(features, labels, mode):
    hidden = keras.layers.Dense(16, activation="tanh")(features)
    logits = keras.layers.Dense(10)(hidden)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    count, accuracy = keras.metrics.Sum(name="count"), keras.metrics.SparseCategoricalAccuracy()
    error = keras.metrics.MeanAbsoluteError(name="error")
    recall = keras.metrics.Recall(name="recall")
    count.update_state(keras.ops.ones_like(labels, dtype="float32"))
    accuracy.update_state(labels, logits)
    error.update_state(keras.ops.one_hot(labels, 10), keras.ops.softmax(logits))
    recall.update_state(labels > 4, keras.ops.sigmoid(logits[:, 0]))
    right = keras.metrics.Accuracy(name="right")
    right.update_state(labels, keras.ops.argmax(logits, axis=1))
    metrics = {
        "count": count,
        "accuracy": accuracy,
        "error": error,
        "recall": recall,
        "pair": (right, right.result()),
    }
    return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def evaluate(strategy, model_dir):
    """The metrics of each case by name."""
    # As scikit-learn keeps them: to import it takes longer than to evaluate.
    (folder,) = importlib.util.find_spec("sklearn").submodule_search_locations
    digits = np.loadtxt(f"{folder}/datasets/data/digits.csv.gz", delimiter=",", dtype=np.float32)
    images, labels = digits[:, :-1] / 16, digits[:, -1].astype(np.int32)
    config = RunConfig(tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy)
    estimator = Estimator(model_fn, model_dir, config)

    def input_fn_of(batch_size):
        def input_fn(input_context):
            count, index = input_context.num_input_pipelines, input_context.input_pipeline_id
            return Dataset.from_tensor_slices((images, labels)).shard(count, index).batch(batch_size // count)

        return input_fn

    found = [estimator.evaluate(input_fn_of(size), steps) for size, steps in CASES]
    return [{name: value.item() for name, value in metrics.items()} for metrics in found]


if __name__ == "__main__":
    print("found", json.dumps(evaluate(MultiWorkerMirroredStrategy(), *json.loads(sys.argv[1]))))
