"""tf.boolean_mask in a model_fn: what is computed of the rows that it chooses, as TensorFlow computes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import TraceError

# Two sentences of three places: their scores for two tags, their tags and lengths.
LOGITS = np.array([[[2, 0], [0, 1], [9, 9]], [[1, 3], [7, 7], [8, 8]]], np.float32)
TAGS = np.array([[0, 0, 1], [1, 1, 1]], np.int32)
LENGTHS = np.array([3, 1], np.int32)
CHOSEN = [(0, 0), (0, 1), (0, 2), (1, 0)]
EACH = [-np.log(np.exp(LOGITS[at])[TAGS[at]] / np.exp(LOGITS[at]).sum()) for at in CHOSEN]


def computed(compute: Callable[..., Any]) -> Any:
    """Return what a model_fn computes of the logits and the mask, and takes for its loss."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        factor = tf.get_variable("factor", [], initializer=tf.ones_initializer())
        mask = tf.sequence_mask(features["lengths"])
        result = compute(features["logits"] * factor, labels, mask)
        loss, ops = result if isinstance(result, tuple) else (result, {})
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, None, loss, train_op, ops)

    estimator = tf.estimator.Estimator(model_fn)
    data = {"logits": LOGITS, "lengths": LENGTHS}
    found = estimator.evaluate(lambda: tf.data.Dataset.from_tensors((data, TAGS)))
    estimator.train(lambda: (data, TAGS), steps=1)
    return found | {"change": 1 - estimator.get_variable_value("factor")}


def cross_entropy(logits: Any, tags: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)


def test_the_mean_of_losses_is_that_of_the_places_that_are_chosen() -> None:
    found = computed(
        lambda logits, tags, mask: tf.reduce_mean(tf.boolean_mask(cross_entropy(logits, tags), mask))
    )
    assert found["loss"] == pytest.approx(np.mean(EACH))
    softmax = [np.exp(LOGITS[at]) / np.exp(LOGITS[at]).sum() for at in CHOSEN]
    slopes = [(p * LOGITS[at]).sum() - LOGITS[at][TAGS[at]] for p, at in zip(softmax, CHOSEN, strict=True)]
    assert found["change"] == pytest.approx(np.mean(slopes), rel=1e-5)


def test_rows_are_computed_with() -> None:
    def compute(logits: Any, tags: Any, mask: Any) -> Any:
        rows, numbers = tf.boolean_mask(logits, mask), tf.boolean_mask(tags, mask)
        assert rows.get_shape().as_list() == [None, 2]
        right = tf.cast(tf.equal(tf.cast(tf.argmax(rows, axis=-1), tf.int32), numbers), tf.float32)
        total = tf.reduce_sum(cross_entropy(rows, numbers) * 2.0) - 1
        largest = tf.reduce_max(rows, axis=0)
        return total, {
            "right": tf.metrics.mean(right),
            "accuracy": tf.metrics.accuracy(numbers, tf.argmax(rows, 1)),
            "largest": tf.metrics.mean(largest[1]),
            "second": tf.metrics.mean(rows[:, 1]),
            "count": tf.metrics.mean(tf.cast(tf.shape(numbers)[0] + tf.size(rows), tf.float32)),
        }

    found = computed(compute)
    assert found["loss"] == pytest.approx(2 * np.sum(EACH) - 1)
    assert found["right"] == found["accuracy"] == pytest.approx(2 / 4)
    assert (found["largest"], found["count"]) == (9, 12)
    assert found["second"] == np.mean([LOGITS[at][1] for at in CHOSEN])


def test_parts_are_computed_with() -> None:
    """The parts of both calls are the same rows, as the numbers of parts are."""

    def compute(logits: Any, tags: Any, mask: Any) -> Any:
        lengths = tf.cast(tf.reduce_sum(tf.cast(mask, tf.int32), 1) > 1, tf.int32)
        few, many = tf.dynamic_partition(logits[:, 0], lengths, 2)
        numbers = tf.dynamic_partition(tags[:, 0], lengths, 2)
        metrics = {
            name: tf.metrics.accuracy(numbers[part], tf.argmax(rows, 1))
            for part, (name, rows) in enumerate((("few", few), ("many", many)))
        }
        return tf.reduce_sum(many), metrics

    found = computed(compute)
    assert found["loss"] == LOGITS[0, 0].sum()
    assert (found["few"], found["many"]) == (1, 1)
    with pytest.raises(TraceError, match=r"by different masks"):
        computed(lambda *args: tf.reduce_sum(tf.add(*tf.dynamic_partition(args[0], args[1], 2))))


def test_losses_take_the_mask_for_weights() -> None:
    def compute(logits: Any, tags: Any, mask: Any) -> Any:
        rows, numbers = tf.boolean_mask(logits, mask), tf.boolean_mask(tags, mask)
        loss: Any = tf.losses.sparse_softmax_cross_entropy(labels=numbers, logits=rows)
        squares = tf.losses.mean_squared_error(tf.one_hot(numbers, 2), rows)
        return loss, {"squares": tf.metrics.mean(squares)}

    found = computed(compute)
    assert found["loss"] == pytest.approx(np.mean(EACH))
    squares = [(LOGITS[at] - np.eye(2)[TAGS[at]]) ** 2 for at in CHOSEN]
    assert found["squares"] == pytest.approx(np.mean(squares))


def test_a_mask_of_other_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"of shape \(2, 3, 2\) by a mask of shape \(2, 2\)"):
        computed(lambda logits, tags, mask: tf.reduce_sum(tf.boolean_mask(logits, mask[:, :2])))


@pytest.mark.parametrize(
    "compute",
    [
        lambda rows, numbers, mask: tf.cumsum(rows),
        lambda rows, numbers, mask: rows[0],
        lambda rows, numbers, mask: tf.argmax(rows),
        lambda rows, numbers, mask: rows + tf.ones([3, 2]),
        lambda rows, numbers, mask: tf.concat([rows, rows], 0),
        lambda rows, numbers, mask: (
            tf.reduce_sum(rows) + tf.reduce_sum(rows * tf.boolean_mask(LOGITS, ~mask))
        ),
    ],
)
def test_what_needs_to_know_the_rows_is_told(compute: Callable[..., Any]) -> None:
    def refused(logits: Any, tags: Any, mask: Any) -> Any:
        rows, numbers = tf.boolean_mask(logits, mask), tf.boolean_mask(tags, mask)
        return tf.reduce_sum(compute(rows, numbers, mask))

    with pytest.raises(TraceError, match=r"tf\.boolean_mask has chosen"):
        computed(refused)
