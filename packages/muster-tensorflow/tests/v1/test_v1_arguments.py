"""Losses, schedules and metrics take arguments by TensorFlow 1's names, in its order."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

losses, train = tf.compat.v1.losses, tf.compat.v1.train

_REDUCED = ["scope", "loss_collection", "reduction"]
_DECAY = ["learning_rate", "global_step", "decay_steps", "decay_rate", "staircase", "name"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            losses.softmax_cross_entropy,
            ["onehot_labels", "logits", "weights", "label_smoothing", *_REDUCED],
        ),
        (
            losses.sigmoid_cross_entropy,
            ["multi_class_labels", "logits", "weights", "label_smoothing", *_REDUCED],
        ),
        (losses.mean_squared_error, ["labels", "predictions", "weights", *_REDUCED]),
        (losses.absolute_difference, ["labels", "predictions", "weights", *_REDUCED]),
        (train.exponential_decay, _DECAY),
        (train.inverse_time_decay, _DECAY),
        (train.natural_exp_decay, _DECAY),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_arguments_have_the_names_and_the_order_of_tensorflow(
    function: Callable[..., Any], names: list[str]
) -> None:
    assert list(inspect.signature(function).parameters) == names
    assert function.__doc__


def test_a_loss_takes_its_arguments_by_place_and_by_name() -> None:
    labels, logits, weights = np.eye(2, 3, dtype=np.float32), np.ones((2, 3), np.float32), [1.0, 3.0]
    by_place = losses.softmax_cross_entropy(labels, logits, weights, 0.3, None, None, "weighted_sum")
    by_name = losses.softmax_cross_entropy(
        reduction="weighted_sum", label_smoothing=0.3, weights=weights, logits=logits, onehot_labels=labels
    )
    np.testing.assert_allclose([by_place, by_name], 4 * np.log(3), rtol=1e-6)
    with pytest.raises(TypeError, match="logits"):
        losses.softmax_cross_entropy(labels)


def test_metrics_and_losses_are_called_what_they_are() -> None:
    names = ["accuracy", "precision", "recall", "true_positives", "false_negatives", "mean_squared_error"]
    assert [getattr(tf.compat.v1.metrics, name).__name__ for name in names] == names
    assert losses.mean_squared_error.__name__ == "mean_squared_error"
    assert train.natural_exp_decay.__name__ == "natural_exp_decay"
