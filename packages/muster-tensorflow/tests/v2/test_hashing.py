"""`tf.keras.layers.Hashing` and `HashedCrossing`. What TensorFlow 2.15 gave is written down."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

Hashing, HashedCrossing = tf.keras.layers.Hashing, tf.keras.layers.HashedCrossing


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({}, [["A"], ["B"], ["C"], ["D"], [""]], [[3], [6], [1], [4], [6]]),
        ({"mask_value": ""}, [["A"], ["B"], ["C"], ["D"], [""]], [[5], [1], [2], [2], [0]]),
        ({}, [1, 2, 3, -1, 0], [5, 5, 2, 4, 2]),
        ({}, [1.9, 2.1], [5, 5]),
        ({"output_mode": "multi_hot"}, [["A", "B"]], [[0, 0, 0, 1, 0, 0, 1]]),
        ({"output_mode": "one_hot"}, [["A"], ["B"]], [[0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]]),
    ],
)
def test_buckets_are_tensorflows(options: Any, values: Any, expected: Any) -> None:
    layer = Hashing(num_bins=7, **options)
    assert layer(np.array(values)).tolist() == expected
    symbol = layer(tf.keras.Input(np.shape(values)[1:], dtype=tf.string))
    assert symbol.shape == (None, *np.shape(expected)[1:])
    assert Hashing.from_config(layer.get_config())(np.array(values)).tolist() == expected


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({"num_bins": 64, "salt": 1337}, ["a", "bb", "hello world, again"], [26, 15, 55]),
        ({"num_bins": 64, "salt": 1337}, [1, 22, -5], [45, 27, 15]),
        (
            {"num_bins": 64, "salt": [133, 137]},
            [["A"], ["B"], ["C"], ["D"], ["E"]],
            [[16], [6], [39], [10], [14]],
        ),
        ({"num_bins": 3, "salt": (133, 137)}, ["A", "B", "C", "D", "E"], [1, 2, 1, 0, 2]),
        ({"num_bins": 5, "salt": 7, "mask_value": ""}, ["A", "", "C", "D", "E"], [3, 0, 3, 2, 3]),
    ],
)
def test_buckets_by_a_key_are_tensorflows(options: Any, values: Any, expected: Any) -> None:
    layer = Hashing(**options)
    assert layer(np.array(values)).tolist() == expected
    assert Hashing.from_config(layer.get_config())(np.array(values)).tolist() == expected


def test_buckets_of_combinations_are_tensorflows() -> None:
    letters, numbers = np.array(["A", "B", "A", "B", "A"]), np.array([101, 101, 101, 102, 102])
    layer = HashedCrossing(num_bins=5)
    assert layer((letters, numbers)).tolist() == [1, 4, 1, 1, 3]
    rows = HashedCrossing(num_bins=5, output_mode="one_hot")((letters[:2, None], np.array([[101], [102]])))
    assert rows.tolist() == [[0, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    three = (np.array([["A"], ["B"]]), np.array([["x"], ["y"]]), np.array([[1], [-2]]))
    assert HashedCrossing(num_bins=50)(three).tolist() == [[30], [2]]


def test_a_model_crosses_its_columns() -> None:
    city, hour = tf.keras.Input((1,), dtype=tf.string), tf.keras.Input((1,), dtype="int64")
    crossed = HashedCrossing(num_bins=5, output_mode="one_hot")([city, hour])
    hashed = Hashing(num_bins=7, output_mode="one_hot")(city)
    model = tf.keras.Model([city, hour], tf.keras.layers.concatenate([crossed, hashed]))
    found = model([np.array([["A"], ["B"]]), np.array([[101], [102]])]).numpy()
    assert found.argmax(1).tolist() == [1, 1]
    assert found[:, 5:].argmax(1).tolist() == [3, 6]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="num_bins must be at least 1, got 0"):
        Hashing(num_bins=0)
    with pytest.raises(ValueError, match="no sparse=True"):
        Hashing(num_bins=2, sparse=True)
    with pytest.raises(ValueError, match=r"an integer or two, got \[1, 2, 3\]"):
        Hashing(num_bins=2, salt=[1, 2, 3])
    with pytest.raises(ValueError, match="output_mode must be one of"):
        Hashing(num_bins=2, output_mode="tf_idf")
    with pytest.raises(ValueError, match="output_mode must be 'int' or 'one_hot', got 'count'"):
        HashedCrossing(num_bins=2, output_mode="count")
    with pytest.raises(ValueError, match=r"two or more arrays of one shape, got \[\(1,\), \(2,\)\]"):
        HashedCrossing(num_bins=2)((np.array(["a"]), np.array(["a", "b"])))
    with pytest.raises(TypeError, match="Hashing has no argument 'hash_key'"):
        Hashing(num_bins=2, hash_key=3)
