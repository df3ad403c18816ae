"""tf.train.Example."""

from typing import Any

import numpy as np
import pytest
from tfrecord_examples import MANY, ONE, example

from muster._errors import DatasetError
from muster.data import BytesList, Example, Feature, FloatList, Int64List


def protobuf_example() -> Any:
    """The message class of tf.train.Example, made of its description by Google's own package."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    lists = [("BytesList", 12), ("FloatList", 2), ("Int64List", 3)]
    for name, kind in lists:
        file.message_type.add(name=name).field.add(name="value", number=1, label=3, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field) in enumerate(
        zip(lists, ("bytes_list", "float_list", "int64_list"), strict=True), 1
    ):
        feature.field.add(
            name=field, number=number, label=1, type=11, type_name=f".t.{name[0]}", oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".t.Feature")
    features.field.add(name="feature", number=1, label=3, type=11, type_name=".t.Features.FeatureEntry")
    whole = file.message_type.add(name="Example")
    whole.field.add(name="features", number=1, label=1, type=11, type_name=".t.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def test_examples_are_those_of_protocol_buffers() -> None:
    theirs = protobuf_example().FromString(example(**ONE)).features.feature
    assert list(theirs["bytes_a"].bytes_list.value) == ONE["bytes_a"]
    assert list(theirs["float_a"].float_list.value) == [np.float32(value) for value in ONE["float_a"]]
    assert list(theirs["int64_many"].int64_list.value) == MANY
    assert theirs["nothing"].WhichOneof("kind") is None
    assert theirs["float_none"].WhichOneof("kind") == "float_list"
    message = protobuf_example()()
    message.features.feature["int64_a"].int64_list.value.extend(MANY)
    message.features.feature["float_a"].float_list.value.extend([0.5, 2.0])
    message.features.feature["bytes_a"].bytes_list.value.append(b"x" * 1000)
    ours = Example.FromString(message.SerializeToString()).features.feature
    assert ours["int64_a"].int64_list == Int64List(MANY)
    assert ours["float_a"].float_list == FloatList([0.5, 2.0])
    assert ours["bytes_a"].bytes_list == BytesList([b"x" * 1000])


def test_bytes_that_are_no_example() -> None:
    for wrong in (b"\x0a\xff", b"\x0a\x05\x0a", b"\x0b\x00", b"\x0a\x02\x0a\x7f"):
        with pytest.raises(DatasetError, match="is no tf.train.Example"):
            Example.FromString(wrong)
    whole = example(**ONE)
    for end in range(1, len(whole)):  # whatever it is cut to, it is read or refused
        with pytest.raises(DatasetError, match="is no tf.train.Example"):
            Example.FromString(whole[:end])


def test_features_alone_and_examples_to_read_into() -> None:
    feature = Feature(int64_list=Int64List([1, 2]))
    assert feature.WhichOneof("kind") == "int64_list"
    assert feature.HasField("int64_list")
    assert not feature.HasField("bytes_list")
    assert Feature().WhichOneof("kind") is None
    # Field 3, with a message of 4 bytes: field 1, with 2 bytes of packed numbers.
    assert feature.SerializeToString() == b"\x1a\x04\x0a\x02\x01\x02"
    example_read = Example()
    serialized = example(**ONE)
    assert example_read.ParseFromString(serialized) == len(serialized)
    assert example_read == Example.FromString(serialized)
    assert Example().features.feature == {}


def test_bytes_of_numpy() -> None:
    names = np.array([b"cat", b"goat"])
    assert BytesList([np.asarray(names[0]), names[1]]).value == [b"cat", b"goat"]
    assert (
        Feature(bytes_list=BytesList([names[1]])).SerializeToString()
        == Feature(bytes_list=BytesList([b"goat"])).SerializeToString()
    )


def test_lists_that_a_feature_does_not_have_read_as_empty_ones() -> None:
    feature = Feature(float_list=FloatList([1.0]))
    assert not list(feature.int64_list.value)
    assert not list(feature.bytes_list.value)
    assert feature.HasField("float_list")
    assert not feature.HasField("int64_list")
    assert Feature(int64_list=Int64List()).HasField("int64_list")
