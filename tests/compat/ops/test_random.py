"""``tf.random``: draws from the distributions, new in every call, and repeatable."""

import jax
import numpy as np
import pytest

import muster.compat.tensorflow as tf
from muster import TraceError
from muster.data import Dataset


def strategies():
    return [tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])]


def test_outside_of_functions_they_are_numpys():
    tf.random.set_seed(1)
    first = tf.random.uniform([1000], 2, 5), tf.random.normal([1000], 10.0, 2.0)
    assert {each.dtype for each in first} == {np.dtype(np.float32)}
    assert first[0].min() >= 2
    assert first[0].max() < 5
    assert abs(first[1].mean() - 10) < 0.3
    assert abs(first[1].std() - 2) < 0.2
    tf.random.set_seed(1)
    np.testing.assert_array_equal(tf.random.uniform([1000], 2, 5), first[0])
    numbers = tf.random.uniform([100], maxval=3, dtype=tf.int64)
    assert numbers.dtype == np.int64
    assert set(numbers.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_in_a_function_every_call_and_every_replica_has_others(strategy):
    @tf.function
    def draw():
        return strategy.run(lambda: (tf.random.normal([4], 5.0), tf.random.uniform([4], 1, 9, tf.int32)))

    seen = [each for _ in range(3) for each in strategy.experimental_local_results(draw())]
    assert len({tuple(np.asarray(normal).tolist()) for normal, _ in seen}) == len(seen)
    assert all(1 <= number < 9 for _, numbers in seen for number in np.asarray(numbers))
    assert abs(np.mean([normal for normal, _ in seen]) - 5) < 1.5


def test_a_map_draws_for_each_element():
    noisy = Dataset.range(5).map(lambda x: tf.random.uniform([]))
    assert len(set(map(float, noisy))) == 5


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match="takes no seed, got 3"):
        tf.random.normal([2], seed=3)
    with pytest.raises(ValueError, match="needs maxval"):
        tf.random.uniform([2], dtype=tf.int32)
    with pytest.raises(TraceError, match="SeedGenerator"):
        jax.jit(lambda: tf.random.normal([2]))()
    with pytest.raises(AttributeError, match="SeedGenerator"):
        _ = tf.random.Generator
