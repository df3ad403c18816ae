"""The host's part of a model, done for several small batches at a time where that changes nothing."""

import numpy as np
import pytest

import muster.feature_column as fc
from muster.data import Dataset
from muster.estimator import ModeKeys
from muster.estimator.loop._batches import own_input

ROWS, SIZE = 50, 4


def prepared(dataset, prepare):
    with own_input([dataset], ModeKeys.TRAIN, prepare=prepare) as batches:
        return list(batches)


def examples(**features):
    labels = np.arange(ROWS, dtype=np.float32)
    return Dataset.from_tensor_slices((features, labels)).batch(SIZE).prefetch(2)


def test_small_batches_are_prepared_together_and_come_as_they_were() -> None:
    words = np.array([["red", "", "green", "blue"][i % 4] for i in range(ROWS)])
    city = fc.categorical_column_with_hash_bucket("word", 1000)
    cross = fc.crossed_column(["word", "number"], 1000)
    seen = []

    def prepare(features, labels):
        seen.append(len(labels))
        return fc.transform_features(features, [city, cross]), labels

    dataset = examples(word=words, number=np.arange(ROWS), size=np.random.rand(ROWS, 3))
    batches = prepared(dataset, prepare)
    assert sum(seen) == ROWS
    assert max(seen) > SIZE
    assert len(batches) == -(-ROWS // SIZE)
    for (features, labels), batch in zip(dataset, batches, strict=True):
        alone = fc.transform_features(features, [city, cross])
        assert alone.keys() == batch.features.keys()
        for key, value in alone.items():
            np.testing.assert_array_equal(batch.features[key], value, strict=True)
        np.testing.assert_array_equal(batch.labels, labels, strict=True)


def test_batches_with_several_values_an_example_are_prepared_alone() -> None:
    seen = []

    def prepare(features, labels):
        seen.append(len(labels))
        return features, labels

    prepared(examples(ids=np.ones((ROWS, 2), np.int64)), prepare)
    assert max(seen) == SIZE


def test_the_wrong_batch_fails_in_its_turn() -> None:
    def prepare(features, labels):
        if (features["id"] == 9).any():
            raise ValueError("wrong: 9")
        return features, labels

    with own_input([examples(id=np.arange(ROWS))], ModeKeys.TRAIN, prepare=prepare) as batches:
        assert [list(next(batches).labels) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        with pytest.raises(ValueError, match="wrong: 9"):
            next(batches)


def test_what_has_other_rows_is_made_of_each_batch() -> None:
    def prepare(features, labels):
        return {"first": features["id"][:1]}, labels[:1]

    batches = prepared(examples(id=np.arange(ROWS)), prepare)
    assert [int(batch.features["first"][0]) for batch in batches] == list(range(0, ROWS, SIZE))


def test_batches_without_features_are_read() -> None:
    dataset = Dataset.from_tensor_slices(({}, np.zeros(ROWS, np.float32))).batch(SIZE)
    assert len(prepared(dataset, lambda features, labels: (features, labels))) == -(-ROWS // SIZE)
