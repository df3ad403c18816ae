"""``tf.keras.utils.split_dataset``."""

import numpy as np
import pytest

import muster_tensorflow as tf


def numbers(dataset):
    return [int(each) for each in dataset.as_numpy_iterator()]


def test_a_dataset_is_divided_in_order():
    left, right = tf.keras.utils.split_dataset(tf.data.Dataset.range(10), left_size=0.8)
    assert (numbers(left), numbers(right)) == ([*range(8)], [8, 9])
    left, right = tf.keras.utils.split_dataset(tf.data.Dataset.range(10), left_size=2, right_size=3)
    assert (numbers(left), numbers(right)) == ([0, 1], [2, 3, 4])
    left, right = tf.keras.utils.split_dataset(tf.data.Dataset.range(10), right_size=0.1)
    assert (len(left), numbers(right)) == (9, [9])


def test_arrays_are_divided_and_shuffled():
    data = (np.arange(6.0), np.arange(6))
    left, right = tf.keras.utils.split_dataset(data, left_size=0.5, shuffle=True, seed=1)
    first, second = [[int(label) for _, label in each] for each in (left, right)]
    assert sorted(first + second) == [*range(6)]
    assert first != [0, 1, 2]
    assert [int(label) for _, label in left] == first
    assert len(tf.keras.utils.split_dataset([1, 2, 3, 4], left_size=1)[1]) == 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "At least one of left_size and right_size"),
        ({"left_size": 1.5}, "left_size is a share from 0 to 1"),
        ({"right_size": 11}, "right_size is a share from 0 to 1, or a number of the 10 elements"),
        ({"left_size": 6, "right_size": 5}, "6 and 5 of 10 elements"),
    ],
)
def test_sizes_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        tf.keras.utils.split_dataset(tf.data.Dataset.range(10), **sizes)


def test_no_element_is_in_both_however_the_dataset_shuffles():
    rows = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(40), (20, 2)))
    left, right = tf.keras.utils.split_dataset(rows.shuffle(20).batch(4).unbatch(), left_size=0.8)
    assert (len(left), len(right)) == (16, 4)
    first, other, again = (sorted(int(row[0]) for row in each) for each in (left, right, left))
    assert first == again
    assert sorted(first + other) == list(range(0, 40, 2))
