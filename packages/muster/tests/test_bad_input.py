"""What users get wrong is an error that names the mistake, at once, and not one from the depths."""

import numpy as np
import pytest

import muster
from muster._errors import DatasetError, TraceError
from muster._keras import keras
from muster.data import Dataset, TensorSpec
from muster.distribute import MirroredStrategy, MultiWorkerMirroredStrategy, OneDeviceStrategy, function
from muster.estimator import (
    DistributeConfig,
    Estimator,
    EstimatorSpec,
    RunConfig,
    SessionRunHook,
    StopAtStepHook,
)

X, Y = np.ones((8, 3), np.float32), np.arange(8) % 3


def examples():
    return Dataset.from_tensor_slices((X, Y))


def batches():
    return examples().batch(4).repeat()


def without_return(x, y):
    x + 1


def stops(*args, **kwargs):
    return next(iter([]))


def yields_and_stops():
    yield X[0]
    stops()


class ReturnsName(SessionRunHook):
    def before_run(self, run_context):
        return "loss"


def model_fn(features, labels, mode):
    logits = keras.layers.Dense(3)(features)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def step_is_a_number(features, labels, mode):
    loss = keras.ops.mean(keras.layers.Dense(1)(features))
    return EstimatorSpec(mode, loss=loss, train_op=muster.minimize(keras.optimizers.SGD(0.1), loss, 3))


def stopping_model_fn(features, labels, mode):
    stops()


def train(tmp_path, model=model_fn, inputs=batches, **arguments):
    Estimator(model, tmp_path).train(inputs, steps=1, **arguments)


def fit(*data, **compiled):
    with OneDeviceStrategy("/cpu:0").scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
        model.compile(**{"loss": "mse", **compiled})
    return lambda **arguments: model.fit(*data, verbose=0, **arguments)


def apply_swapped():
    weight, optimizer = keras.Variable(1.0), keras.optimizers.SGD(0.1)
    function(lambda: optimizer.apply_gradients([(weight, np.float32(1))]))()


SIGNATURE = TensorSpec((3,), np.float32)
CASES = {
    # Datasets.
    "map without return": (
        lambda p: next(iter(examples().map(without_return))),
        DatasetError,
        "returned None",
    ),
    "map in training": (
        lambda p: train(p, inputs=lambda: examples().map(without_return).batch(4)),
        DatasetError,
        r"map\(without_return\) returned None",
    ),
    "map that stops": (
        lambda p: list(examples().map(stops)),
        DatasetError,
        r"raised StopIteration in .*test_bad",
    ),
    "generator that stops": (
        lambda p: list(Dataset.from_generator(yields_and_stops, output_signature=SIGNATURE)),
        DatasetError,
        r"raised StopIteration in .*test_bad_input\.py:\d+",
    ),
    # Input and model functions.
    "no batch": (lambda p: train(p, inputs=examples), DatasetError, "labels have no axis of examples.*batch"),
    "no batch, no labels": (
        lambda p: train(p, inputs=lambda: Dataset.from_tensor_slices(Y)),
        DatasetError,
        "features have no axis of examples",
    ),
    "a dataset as input_fn": (
        lambda p: train(p, inputs=batches()),
        TypeError,
        "must be callable.*lambda: dataset",
    ),
    "arguments of input_fn": (
        lambda p: train(p, inputs=lambda batch: 1),
        ValueError,
        r"\['batch'\]. It is called",
    ),
    "input_fn that stops": (
        lambda p: train(p, inputs=stops),
        DatasetError,
        "The input_fn raised StopIteration",
    ),
    "model_fn that stops": (
        lambda p: train(p, model=stopping_model_fn),
        TraceError,
        r"raised StopIteration in `return next\(iter\(\[\]\)\)`",
    ),
    "model_fn": (lambda p: Estimator("model", p), TypeError, "model_fn must be a function"),
    "global step": (
        lambda p: train(p, model=step_is_a_number),
        TypeError,
        "get_or_create_global_step.*got 3",
    ),
    "no labels": (
        lambda p: train(p, inputs=lambda: Dataset.from_tensor_slices(X).batch(4)),
        ValueError,
        "The labels of this model_fn are None: the input to train does not give any",
    ),
    # Hooks and configs.
    "one hook": (lambda p: train(p, hooks=StopAtStepHook(1)), TypeError, "hooks must be .* in a list"),
    "before_run": (lambda p: train(p, hooks=[ReturnsName()]), TypeError, "must return SessionRunArgs"),
    "strategy's name": (lambda p: RunConfig(train_distribute="mirrored"), TypeError, "must be a strategy"),
    "strategy's class": (
        lambda p: RunConfig(eval_distribute=MirroredStrategy),
        TypeError,
        "must be a strategy",
    ),
    "in experimental_distribute": (
        lambda p: RunConfig(experimental_distribute=DistributeConfig(train_distribute="mirrored")),
        TypeError,
        "train_distribute must be a strategy",
    ),
    "distribute": (lambda p: RunConfig(experimental_distribute="x"), TypeError, "must be a DistributeConfig"),
    "model_dir": (lambda p: RunConfig(model_dir=3), TypeError, "model_dir must be a path, given: 3"),
    # Strategies and functions.
    "resolver": (lambda p: MultiWorkerMirroredStrategy("worker"), TypeError, "must be a ClusterResolver"),
    "options": (
        lambda p: MultiWorkerMirroredStrategy(communication_options="nccl"),
        TypeError,
        "must be CommunicationOptions",
    ),
    "run": (lambda p: OneDeviceStrategy("/cpu:0").run(3), TypeError, "`run` needs a function, got 3"),
    "function": (lambda p: function(3), TypeError, "`function` needs a function, got 3"),
    "function that stops": (lambda p: function(stops)(), TraceError, "raised StopIteration in"),
    "swapped gradients": (lambda p: apply_swapped(), TypeError, r"pairs \(gradient, variable\)"),
    # fit.
    "fit without labels": (lambda p: fit(X)(), DatasetError, "data has no labels: give `y`.*'mse'"),
    "fit on a dataset without labels": (
        lambda p: fit(Dataset.from_tensor_slices(X).batch(4))(),
        DatasetError,
        "data has no labels",
    ),
    "fit on text": (lambda p: fit(X, np.array(["a"] * 8))(), DatasetError, "y has dtype <U1"),
    "callback": (lambda p: fit(X, X)(callbacks=[3]), TypeError, "must be keras.callbacks.Callback"),
    "loss that stops": (lambda p: fit(X, X, loss=stops)(), TraceError, "model raised StopIteration in"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_named(case, tmp_path):
    make, error, says = CASES[case]
    with pytest.raises(error, match=says):
        make(tmp_path)
