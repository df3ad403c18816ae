"""Optimizers of ``tf.contrib.opt`` whose steps shrink variables: by a part of these, whatever the rate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

opt = tf.contrib.opt


def trained(directory: Path, make: Callable[[], Any], **options: Any) -> list[float]:
    """Return what two variables are after a step from 1.0, with the gradients 1.0 and 2.0."""
    optimizer = make()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        a, b = (tf1.get_variable(name, [], initializer=tf1.ones_initializer()) for name in "ab")
        loss = (a + 2 * b) * features[0]
        chosen = {"decay_var_list": [a]} if options.get("only_a") else {}
        step = optimizer.minimize(loss, global_step=tf1.train.get_global_step(), **chosen)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    config = tf.estimator.RunConfig(str(directory), train_distribute=options.get("strategy"))
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat(), steps=1)
    return [float(estimator.get_variable_value(name)) for name in "ab"]


Plain = tf1.train.GradientDescentOptimizer


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: opt.AdamWOptimizer(0.25, learning_rate=0.125), [0.625, 0.625]),
        (lambda: opt.MomentumWOptimizer(0.25, 0.125, momentum=0.9), [0.625, 0.5]),
        (lambda: opt.extend_with_decoupled_weight_decay(Plain)(0.25, 0.125), [0.625, 0.5]),
        (lambda: opt.extend_with_decoupled_weight_decay(Plain)(lambda: 0.5, 0.125), [0.375, 0.25]),
    ],
)
def test_variables_shrink_and_take_a_step(tmp_path: Path, make: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(trained(tmp_path, make), expected, rtol=1e-5)


def test_variables_that_are_chosen_shrink_alone(tmp_path: Path) -> None:
    after = trained(tmp_path, lambda: opt.MomentumWOptimizer(0.25, 0.125, 0.9), only_a=True)
    np.testing.assert_allclose(after, [0.625, 0.75], rtol=1e-5)


def test_a_step_that_is_in_no_train_op_shrinks_nothing(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        a, b = (tf1.get_variable(name, [], initializer=tf1.ones_initializer()) for name in "ab")
        loss = (a + 2 * b) * features[0]
        count = tf1.train.get_global_step()
        _, taken = (
            opt.MomentumWOptimizer(0.25, 0.125, 0.9).minimize(loss, global_step=count, var_list=[each])
            for each in (a, b)
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=taken)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat(), steps=1)
    assert [float(estimator.get_variable_value(name)) for name in "ab"] == [1.0, 0.5]
    assert estimator.get_variable_value("global_step") == 1


def test_replicas_shrink_variables_alike(tmp_path: Path) -> None:
    one, two = (
        trained(tmp_path / name, lambda: opt.MomentumWOptimizer(0.25, 0.125, 0.9), strategy=strategy)
        for name, strategy in (("one", None), ("two", tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])))
    )
    assert one == two
