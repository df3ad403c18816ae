"""Which steps of optimizers a model_fn takes: those that its train_op runs, as in TensorFlow 1."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


def trained(directory: Path, train_op_of: Callable[..., Any], steps: int = 2) -> dict[str, float]:
    """Return the values of ``a``, ``b`` and the global step, after each step that is taken subtracts 1."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        a, b = (tf1.get_variable(name, [], initializer=tf1.zeros_initializer()) for name in "ab")
        loss = (a + b) * features[0]

        def step(variable: Any, count: bool = True) -> Any:
            counter = tf1.train.get_global_step() if count else None
            optimizer = tf1.train.GradientDescentOptimizer(1.0)
            return optimizer.minimize(loss, counter, var_list=[variable])

        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(step, a, b, loss))

    data = tf.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat(steps)
    estimator = tf.estimator.Estimator(model_fn, str(directory))
    estimator.train(lambda: data)
    return {name: float(estimator.get_variable_value(name)) for name in ("a", "b", "global_step")}


def last_alone(step: Any, a: Any, b: Any, loss: Any) -> Any:
    step(a)
    return step(b)


def last_of_the_same(step: Any, a: Any, b: Any, loss: Any) -> Any:
    step(b)
    optimizer = tf1.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(loss, [b])
    return optimizer.apply_gradients(pairs, tf1.train.get_global_step())


def grouped(step: Any, a: Any, b: Any, loss: Any) -> Any:
    return tf1.group(step(a, False), [step(b)])


def one_after_the_other(step: Any, a: Any, b: Any, loss: Any) -> Any:
    with tf1.control_dependencies([step(a, False)]):
        return step(b)


def a_loss_that_needs_both(step: Any, a: Any, b: Any, loss: Any) -> Any:
    return tf1.tuple([loss], control_inputs=[step(a, False), step(b)])[0]


def something_else(step: Any, a: Any, b: Any, loss: Any) -> Any:
    step(a, False)
    step(b)
    return tf1.no_op()


@pytest.mark.parametrize("train_op_of", [last_alone, last_of_the_same])
def test_a_step_that_train_op_does_not_have_is_not_taken(
    tmp_path: Path, train_op_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert trained(tmp_path, train_op_of) == {"a": 0, "b": -2, "global_step": 2}


@pytest.mark.parametrize(
    "train_op_of", [grouped, one_after_the_other, a_loss_that_needs_both, something_else]
)
def test_steps_that_train_op_needs_are_taken(tmp_path: Path, train_op_of: Any) -> None:
    assert trained(tmp_path, train_op_of) == {"a": -2, "b": -2, "global_step": 2}


def test_a_warning_names_a_step_that_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train_op_of(step: Any, a: Any, b: Any, loss: Any) -> Any:
        tf1.train.AdamOptimizer(1.0, name="Unused").minimize(loss)
        return step(b)

    with caplog.at_level(logging.WARNING):
        trained(tmp_path, train_op_of)
    assert caplog.text.count("asks for a step of Unused that its train_op does not run") == 1
