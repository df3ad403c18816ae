"""TensorFlow's tutorial "Distributed input" on iterators and what their elements are."""

import numpy as np
import pytest

import muster.compat.tensorflow as tf
from muster import TraceError


def strategies():
    return [tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])]


def rows(strategy, batch):
    return [np.asarray(each).tolist() for each in strategy.experimental_local_results(batch)]


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_a_loop_that_asks_whether_there_is_more(strategy):
    dataset = tf.data.Dataset.range(8).batch(4)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    seen = []
    for _ in range(5):
        optional = iterator.get_next_as_optional()
        if not optional.has_value():
            break
        seen += rows(strategy, optional.get_value())
    assert sum(seen, []) == list(range(8))
    assert iterator.steps_taken == 2
    with pytest.raises(ValueError, match=r"has_value\(\) first"):
        optional.get_value()
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        iterator.get_next()
    assert next(iterator, None) is None


def test_a_function_cannot_ask():
    strategy = tf.distribute.get_strategy()
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4)))

    @tf.function
    def step(iterator):
        return iterator.get_next_as_optional().has_value()

    with pytest.raises(TraceError, match="OutOfRangeError"):
        step(iterator)
    assert rows(strategy, next(iterator)) == [[0, 1, 2, 3]]


def test_what_the_elements_are():
    one, two = strategies()
    dataset = tf.data.Dataset.from_tensors(([1.0], [1])).repeat(100).batch(16, drop_remainder=True)
    alone = one.experimental_distribute_dataset(dataset)
    assert alone.element_spec == iter(alone).element_spec == dataset.element_spec
    shared = two.experimental_distribute_dataset(dataset)
    assert shared.element_spec == (tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None, 1], tf.int32))
    assert iter(shared).element_spec == shared.element_spec
    own = two.distribute_datasets_from_function(lambda context: dataset)
    assert own.element_spec == shared.element_spec

    @tf.function(input_signature=[shared.element_spec])
    def step(per_replica_inputs):
        return two.run(lambda inputs: 2 * inputs[0], args=(per_replica_inputs,))

    assert rows(two, step(next(iter(shared)))) == [[[2.0]] * 8] * 2
