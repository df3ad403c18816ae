"""Metrics count what all replicas add, as in TensorFlow: those that were built outside of any scope, too."""

import numpy as np
import pytest

from muster import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, function

METRICS = {
    "mean": keras.metrics.Mean,
    "iou": lambda: keras.metrics.MeanIoU(num_classes=2),
    "auc": keras.metrics.AUC,
    "precision": keras.metrics.Precision,
}


def update(name, metric, x):
    if name == "mean":
        metric.update_state(x)
    else:
        metric.update_state(x > 3, x / 12 if name == "auc" else x > 5)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # Keras' own, of MeanIoU
@pytest.mark.parametrize("name", METRICS)
def test_it_counts_like_one_of_the_scope(name):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    outside = METRICS[name]()
    with strategy.scope():
        inside = METRICS[name]()

    def step(x):
        update(name, outside, x)
        update(name, inside, x)

    run = function(lambda batch: strategy.run(step, args=(batch,)))
    for batch in strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices(np.arange(12, dtype="float32")).batch(4)
    ):
        run(batch)
    for one, other in zip(outside.variables, inside.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    if name == "iou":  # TensorFlow's, of the same twelve numbers
        np.testing.assert_allclose(outside.result(), 0.70833, rtol=1e-4)
    if name == "mean":
        np.testing.assert_allclose(outside.result(), 5.5)


@pytest.mark.parametrize("called", [False, True])
def test_in_a_step_the_result_is_that_of_all_replicas(called):
    """The values are TensorFlow's."""
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        mean = keras.metrics.Mean()

    def step(x):
        if called:
            return mean(x)
        mean.update_state(x[:1])
        mean.update_state(x[1:])
        return mean.result()

    run = function(lambda batch: strategy.run(step, args=(batch,)))
    results = [
        [float(each) for each in strategy.experimental_local_results(run(batch))]
        for batch in strategy.experimental_distribute_dataset(
            Dataset.from_tensor_slices(np.arange(12, dtype="float32")).batch(4)
        )
    ]
    assert results == [[1.5, 1.5], [3.5, 3.5], [5.5, 5.5]]
    assert float(mean.result()) == 5.5
