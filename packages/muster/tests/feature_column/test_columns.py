"""Columns as values: what they are called, what they read, what they refuse to be made of."""

import dataclasses

import numpy as np
import pytest

from muster.data import FixedLenFeature, VarLenFeature
from muster.feature_column import (
    SequenceFeatures,
    bucketized_column,
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_list,
    classifier_parse_example_spec,
    crossed_column,
    embedding_column,
    indicator_column,
    make_parse_example_spec,
    numeric_column,
    regressor_parse_example_spec,
    sequence_categorical_column_with_hash_bucket,
    sequence_numeric_column,
    shared_embeddings,
    weighted_categorical_column,
)

A = categorical_column_with_identity("a", 3)
B = categorical_column_with_vocabulary_list("b", ["x", "y", "z"])
N = numeric_column("n")


@pytest.mark.parametrize(
    ("column", "name", "parents"),
    [
        (bucketized_column(N, [0, 1]), "n_bucketized", (N,)),
        (crossed_column(["u", bucketized_column(N, [0])], 9), "n_bucketized_X_u", None),
        (crossed_column([crossed_column(["z", "y"], 5), A], 9), "a_X_y_X_z", None),
        (weighted_categorical_column(B, "w"), "b_weighted_by_w", (B, "w")),
        (embedding_column(weighted_categorical_column(B, "w"), 4), "b_weighted_by_w_embedding", None),
        (indicator_column(A), "a_indicator", (A,)),
        (shared_embeddings([A], 2)[0], "a_shared_embedding", (A,)),
        (sequence_categorical_column_with_hash_bucket("s", 5), "s", None),
        (sequence_numeric_column("s"), "s", ("s",)),
    ],
)
def test_names_and_parents(column, name, parents):
    assert column.name == name
    assert parents is None or column.parents == parents


def test_columns_are_values():
    assert embedding_column(A, 2) == embedding_column(categorical_column_with_identity("a", 3), 2)
    assert len({embedding_column(A, 2), embedding_column(A, 2), embedding_column(A, 3)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.key = "b"
    assert repr(crossed_column(["u", "v"], 9)) == (
        "CrossedColumn(keys=('u', 'v'), hash_bucket_size=9, hash_key=None)"
    )


def test_reading_examples_for_columns():
    columns = [
        embedding_column(crossed_column(["u", A], 9), 2),
        indicator_column(weighted_categorical_column(B, "w")),
        bucketized_column(N, [0]),
        categorical_column_with_hash_bucket("h", 5, np.int32),
        sequence_numeric_column("s"),
    ]
    with pytest.raises(ValueError, match="An Example|float32, int64 or string"):
        make_parse_example_spec(columns)
    columns[3] = categorical_column_with_hash_bucket("h", 5, np.int64)
    assert make_parse_example_spec(columns) == {
        "u": VarLenFeature(np.dtype(str)),
        "a": VarLenFeature(np.dtype("int64")),
        "b": VarLenFeature(np.dtype(str)),
        "w": VarLenFeature(np.dtype("float32")),
        "n": FixedLenFeature((1,), np.dtype("float32")),
        "h": VarLenFeature(np.dtype("int64")),
        "s": VarLenFeature(np.dtype("float32")),
    }
    with pytest.raises(ValueError, match="different parse_spec for key a"):
        make_parse_example_spec([A, numeric_column("a")])


def test_reading_labels_and_weights():
    assert classifier_parse_example_spec([N], "y", weight_column="w") == {
        "n": FixedLenFeature((1,), np.dtype("float32")),
        "y": FixedLenFeature((1,), np.dtype("int64")),
        "w": FixedLenFeature((1,), np.dtype("float32")),
    }
    assert classifier_parse_example_spec([A], "y", str, "b")["y"] == FixedLenFeature((1,), np.dtype(str), "b")
    spec = regressor_parse_example_spec([N], "y", label_dimension=2, weight_column=numeric_column("w", 2))
    assert spec["y"] == FixedLenFeature((2,), np.dtype("float32"))
    assert spec["w"] == FixedLenFeature((2,), np.dtype("float32"))
    with pytest.raises(ValueError, match="label should not be used as feature. label_key: n"):
        regressor_parse_example_spec([N], "n")
    with pytest.raises(ValueError, match="weight_column should not be used as feature. weight_column: n"):
        classifier_parse_example_spec([N], "y", weight_column="n")
    with pytest.raises(TypeError, match="should be an instance of numeric_column. Given type: int"):
        classifier_parse_example_spec([N], "y", weight_column=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bucketized_column(A, [0]), "generated with numeric_column"),
        (lambda: bucketized_column(numeric_column("n", (2, 2)), [0]), "must be one-dimensional"),
        (lambda: bucketized_column(N, []), "boundaries must be a sorted list"),
        (lambda: bucketized_column(N, [1, 0]), "boundaries must be a sorted list"),
        (lambda: crossed_column(["u", categorical_column_with_hash_bucket("h", 5)], 9), "not supported for"),
        (lambda: crossed_column(["u", N], 9), "Unsupported key type"),
        (lambda: crossed_column(["u", indicator_column(A)], 9), "Unsupported key type"),
        (lambda: indicator_column(N), "A categorical column is wanted"),
        (lambda: embedding_column(N, 2), "A categorical column is wanted"),
        (lambda: embedding_column(A, 2, "max"), "combiner must be one of 'mean', 'sqrtn' or 'sum', got max"),
        (lambda: shared_embeddings([], 2), "categorical_columns must not be empty"),
        (lambda: SequenceFeatures([N]), "must be a SequenceDenseColumn"),
        (lambda: SequenceFeatures([]), "must not be empty"),
        (lambda: categorical_column_with_hash_bucket(3, 5), "key must be a string"),
        (lambda: categorical_column_with_vocabulary_list("v", []), "must be non-empty"),
        (
            lambda: weighted_categorical_column(A, "a").parse_example_spec,
            "already exists for a",
        ),
    ],
)
def test_what_columns_cannot_be_made_of(make, message):
    with pytest.raises(ValueError, match=message):
        make()
