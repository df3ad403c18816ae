"""Distributed input by TensorFlow's names: iterators, and what their elements are."""

import numpy as np
import pytest

import muster_tensorflow as tf


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


@pytest.fixture(params=[False, True], ids=["traced", "eager"])
def eager(request):
    tf.config.run_functions_eagerly(request.param)
    yield request.param
    tf.config.run_functions_eagerly(False)


def asks_whether_there_is_more(strategy):
    """The tutorial's function, which says how many steps it took, its sum, and its traces."""
    total = tf.Variable(0.0)
    traces = []

    @tf.function
    def train_fn(iterator):
        traces.append(iterator)
        results = []
        for _ in tf.range(3):
            optional = iterator.get_next_as_optional()
            if not optional.has_value():
                break
            results.append(strategy.run(lambda x: tf.reduce_sum(x), args=(optional.get_value(),)))
            total.assign_add(tf.cast(strategy.reduce("SUM", results[-1], axis=None), tf.float32))
        return results

    return train_fn, total, traces


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_a_function_that_asks_whether_there_is_more(strategy):
    train_fn, total, traces = asks_whether_there_is_more(strategy)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(20).batch(4))
    for epoch in range(1, 4):
        iterator = iter(data)
        assert [len(train_fn(iterator)) for _ in range(4)] == [3, 2, 0, 0]
        assert float(total) == epoch * 190
    # Of three steps, of two and of none: each is traced in the first epoch only.
    assert len({id(each) for each in traces}) == 3


def test_a_function_that_asks_and_is_run_eagerly(eager):
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    train_fn, total, _ = asks_whether_there_is_more(strategy)
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(20).batch(4)))
    assert [len(train_fn(iterator)) for _ in range(4)] == [3, 2, 0, 0]
    assert float(total) == 190


def test_a_gradient_of_what_a_function_draws(eager):
    iterator = iter(
        tf.distribute.get_strategy().experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))
    )
    weight = tf.Variable(0.0)

    @tf.function
    def step(iterator):
        x = tf.cast(next(iterator), tf.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * weight)
        weight.assign_sub(tape.gradient(loss, weight))

    step(iterator)
    step(iterator)
    assert float(weight) == -28


def test_a_function_first_called_with_little_left():
    strategy = tf.distribute.get_strategy()
    traces = []

    @tf.function
    def train_fn(iterator):
        traces.append(iterator)
        seen = []
        while len(seen) < 3 and (optional := iterator.get_next_as_optional()).has_value():
            seen.append(optional.get_value())
        return seen

    def distributed(count):
        return iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(4 * count).batch(4)))

    def steps(count):
        iterator = distributed(count)
        return [len(train_fn(iterator)) for _ in range(3)]

    for count, expected in [(2, [2, 0, 0]), (2, [2, 0, 0]), (4, [3, 1, 0]), (5, [3, 2, 0]), (2, [2, 0, 0])]:
        assert steps(count) == expected
    assert len({id(each) for each in traces}) == 4


def test_a_function_that_asks_and_then_takes_for_granted():
    strategy = tf.distribute.get_strategy()

    @tf.function
    def step(iterator):
        optional = iterator.get_next_as_optional()
        return tf.reduce_sum(optional.get_value() - next(iterator)) if optional.has_value() else None

    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(12).batch(4)))
    assert int(step(iterator)) == -16
    with pytest.raises(tf.errors.OutOfRangeError, match="than the 1 that are left"):
        step(iterator)
    assert rows(strategy, next(iterator)) == [[8, 9, 10, 11]]
    assert step(iterator) is None


def test_a_function_that_does_not_ask_what_it_got():
    strategy = tf.distribute.get_strategy()
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4)))
    step = tf.function(lambda iterator: iterator.get_next_as_optional().get_value())
    assert step(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"ask has_value\(\) first"):
        step(iterator)


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_what_may_be_missing_is_given_to_replicas_and_returned(strategy):
    @tf.function
    def step(iterator):
        optional = iterator.get_next_as_optional()
        if optional.has_value():
            doubled = strategy.run(lambda one: 2 * one.get_value(), args=(optional,))
            return optional, doubled
        return optional, None

    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4)))
    optional, doubled = step(iterator)
    assert sum(rows(strategy, optional.get_value()), []) == [0, 1, 2, 3]
    assert sum(rows(strategy, doubled), []) == [0, 2, 4, 6]
    optional, nothing = step(iterator)
    assert not optional.has_value()
    assert nothing is None


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
