"""``tf.train.SequenceExample``: bytes and values are those of TensorFlow 2.15."""

import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError

import muster_tensorflow as tf

SERIALIZED = (
    b"\n\x19\n\x0b\n\x02id\x12\x05\n\x03\n\x01x\n\n\n\x01n\x12\x05\x1a\x03\n\x01\x03\x12A\n\x1a\n\x03ids\x12"
    b"\x13\n\x05\x1a\x03\n\x01\x01\n\x06\x1a\x04\n\x02\x02\x03\n\x02\x1a\x00\n#\n\x03rgb\x12\x1c\n\x0c\x12\n\n"
    b"\x08\x00\x00\x80?\x00\x00\x00@\n\x0c\x12\n\n\x08\x00\x00@@\x00\x00\x80@"
)
train, io = tf.train, tf.io
CONTEXT = {"id": io.FixedLenFeature([], tf.string), "n": io.VarLenFeature(tf.int64)}
LISTS = {
    "rgb": io.FixedLenSequenceFeature([2], tf.float32),
    "ids": io.VarLenFeature(tf.int64),
    "none": io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "nothing": io.VarLenFeature(tf.int64),
}


def floats(*values):
    return train.Feature(float_list=train.FloatList(value=values))


def integers(*values):
    return train.Feature(int64_list=train.Int64List(value=values))


def test_bytes():
    lists = {
        "rgb": train.FeatureList(feature=[floats(1, 2), floats(3, 4)]),
        "ids": train.FeatureList(feature=[integers(1), integers(2, 3), integers()]),
    }
    context = {"id": train.Feature(bytes_list=train.BytesList(value=[b"x"])), "n": integers(3)}
    example = train.SequenceExample(
        context=train.Features(feature=context), feature_lists=train.FeatureLists(feature_list=lists)
    )
    assert example.SerializeToString() == SERIALIZED
    found = train.SequenceExample.FromString(SERIALIZED)
    assert found.SerializeToString() == SERIALIZED
    assert found.feature_lists.feature_list["ids"].feature[1].int64_list.value == [2, 3]


def test_parsing():
    context, lists = io.parse_single_sequence_example(SERIALIZED, CONTEXT, LISTS)
    assert np.asarray(context["n"].values).tolist() == [3]
    np.testing.assert_array_equal(lists["rgb"], [[1, 2], [3, 4]])
    assert np.asarray(lists["ids"].indices).tolist() == [[0, 0], [1, 0], [1, 1]]
    assert np.asarray(lists["ids"].values).tolist() == [1, 2, 3]
    assert tuple(np.asarray(lists["ids"].dense_shape)) == (3, 2)
    assert lists["none"].shape == (0,)
    assert tuple(np.asarray(lists["nothing"].dense_shape)) == (0, 0)
    ragged = {"ids": io.RaggedFeature(tf.int64)}
    _, lists = tf.compat.v1.parse_single_sequence_example(SERIALIZED, None, ragged)
    assert lists["ids"].to_list() == [[1], [2, 3], []]


def short_example():
    """Without the lists and the number that the other has."""
    context = {"id": train.Feature(bytes_list=train.BytesList(value=[b"y"]))}
    lists = {"rgb": train.FeatureList(feature=[floats(5, 6)])}
    return train.SequenceExample(
        context=train.Features(feature=context), feature_lists=train.FeatureLists(feature_list=lists)
    ).SerializeToString()


def test_parsing_a_batch():
    context, lists, steps = io.parse_sequence_example([SERIALIZED, short_example()], CONTEXT, LISTS)
    assert context["id"].numpy().tolist() == [b"x", b"y"]
    assert np.asarray(context["n"].indices).tolist() == [[0, 0]]
    assert lists["rgb"].numpy().tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert lists["none"].shape == (2, 0)
    assert lists["ids"].indices.numpy().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert lists["ids"].values.numpy().tolist() == [1, 2, 3]
    assert tuple(np.asarray(lists["ids"].dense_shape)) == (2, 3, 2)
    assert tuple(np.asarray(lists["nothing"].dense_shape)) == (2, 0, 0)
    assert {key: each.numpy().tolist() for key, each in steps.items()} == {"none": [0, 0], "rgb": [2, 1]}
    assert steps["rgb"].dtype == tf.int64
    ragged = {"ids": io.RaggedFeature(tf.int64), "rgb": io.RaggedFeature(tf.float32)}
    _, lists, steps = tf.compat.v1.io.parse_sequence_example([SERIALIZED, short_example()], None, ragged)
    assert lists["ids"].to_list() == [[[1], [2, 3], []], []]
    assert lists["rgb"].to_list() == [[[1, 2], [3, 4]], [[5, 6]]]
    assert steps == {}


def test_a_batch_needs_a_vector():
    with pytest.raises(ValueError, match=r"a vector of bytes, got shape \(\).*parse_single_sequence_example"):
        io.parse_sequence_example(SERIALIZED, CONTEXT, LISTS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'no' is required.* of example 0 of the batch"):
        io.parse_sequence_example([SERIALIZED], None, {"no": io.FixedLenSequenceFeature([], tf.int64)})


def test_parsing_in_a_dataset():
    def rgb(serialized):
        context, lists = io.parse_single_sequence_example(serialized, CONTEXT, LISTS)
        return lists["rgb"] * 2

    dataset = tf.data.Dataset.from_tensors(SERIALIZED).map(rgb)
    assert next(iter(dataset)).numpy().tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"no": io.FixedLenSequenceFeature([], tf.int64)}, "Feature list 'no' is required"),
        ({"ids": io.FixedLenSequenceFeature([], tf.int64)}, "step 1"),
        ({"ids": io.FixedLenFeature([], tf.int64)}, "use FixedLenSequenceFeature"),
    ],
)
def test_lists_that_are_not_as_described(lists, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        io.parse_single_sequence_example(SERIALIZED, None, lists)


def test_batches_of_examples_padded_with_text():
    """As TF-Ranking pads lists of Examples: with ``""``, after it has counted them."""
    written = train.Example(features=train.Features(feature={"x": floats(2)})).SerializeToString()

    def parsed(batch):
        padded = tf.pad(batch, [[0, 0], [0, 1]], constant_values="")
        sizes = tf.reduce_sum(tf.ones_like(batch, dtype=tf.int32), axis=1)
        return io.parse_example(
            tf.reshape(padded, [-1]), {"x": io.FixedLenFeature([1], tf.float32, [-1])}
        ), sizes

    (features, sizes) = next(iter(tf.data.Dataset.from_tensors([[written]]).map(parsed)))
    assert features["x"].numpy().tolist() == [[2], [-1]]
    assert sizes.numpy().tolist() == [1]


def test_other_bytes():
    with pytest.raises(DecodeError):
        train.SequenceExample.FromString(b"other")
    with pytest.raises(tf.errors.InvalidArgumentError, match="no tf.train.SequenceExample"):
        io.parse_single_sequence_example(b"other", CONTEXT, LISTS)


def test_examples_are_made_in_place():
    """As converters of tables do: what a name or a list lacks is there once it is written."""
    example = train.SequenceExample()
    example.context.feature["n"].int64_list.value.append(3)
    example.context.feature["id"].bytes_list.value.extend([b"x"])
    steps = example.feature_lists.feature_list["ids"].feature
    for values in ([1], [2, 3], []):
        steps.add().int64_list.value.extend(values)
    rgb = example.feature_lists.feature_list["rgb"]
    rgb.feature.extend([floats(1, 2), floats(3, 4)])
    steps[2].int64_list.SetInParent()
    assert example.SerializeToString() == SERIALIZED
    again = train.Example()
    again.CopyFrom(train.Example(features=train.Features(feature={"a": integers(1), "b": floats(0.5)})))
    del again.features.feature["b"]
    assert json_format.MessageToDict(again) == {
        "features": {"feature": {"a": {"int64List": {"value": ["1"]}}}}
    }


def test_places_and_values_of_sparse_features():
    def example(places, values, rows=()):
        feature = {
            "at": tf.train.Feature(int64_list=tf.train.Int64List(value=places)),
            "row": tf.train.Feature(int64_list=tf.train.Int64List(value=rows)),
            "value": tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    spec = {"x": io.SparseFeature("at", "value", tf.float32, 4)}
    written = [example([2, 0], [0.5, 1.5]), example([], []), example([3], [2.5])]
    batch = io.parse_example(written, spec)["x"]
    assert batch.indices.numpy().tolist() == [[0, 0], [0, 2], [2, 3]]
    assert tf.sparse.to_dense(batch).numpy().tolist() == [[1.5, 0, 0.5, 0], [0] * 4, [0, 0, 0, 2.5]]
    alone = io.parse_single_example(written[0], spec)["x"]
    assert tf.sparse.to_dense(alone).numpy().tolist() == [1.5, 0, 0.5, 0]
    two = {"x": io.SparseFeature(["row", "at"], "value", tf.float32, [2, 3])}
    matrix = io.parse_example([example([1, 2], [4.0, 5.0], [1, 0])], two)["x"]
    assert tf.sparse.to_dense(matrix).numpy().tolist() == [[[0, 0, 5], [0, 4, 0]]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 1 values in 'value', and 2 places in 'at'"):
        io.parse_example([example([0, 1], [1.0])], spec)
    with pytest.raises(ValueError, match="a size for each axis"):
        io.SparseFeature("at", "value", tf.float32, [1, 2])
