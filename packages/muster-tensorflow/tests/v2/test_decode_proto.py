"""``tf.io.decode_proto``, with the values of TensorFlow 2.15.1."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import muster_tensorflow as tf
from muster import DatasetError

FIELD = descriptor_pb2.FieldDescriptorProto
FIELDS = {  # type, whether it is repeated, default
    "price": ("double", False, ""),
    "weights": ("float", True, ""),
    "ids": ("int64", True, ""),
    "big": ("uint64", False, ""),
    "counts": ("uint32", True, ""),
    "paid": ("bool", False, ""),
    "names": ("string", True, ""),
    "raw": ("bytes", False, ""),
    "deltas": ("sint64", True, ""),
    "colour": ("enum", False, ""),
    "items": ("message", True, ""),
    "stars": ("int32", False, "7"),
}


def description(syntax: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    colour = file.enum_type.add(name="Colour")
    for number, name in ((0, "RED"), (5, "GREEN")):
        colour.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    for number, (name, (kind, repeated, default)) in enumerate(FIELDS.items(), 1):
        field = order.field.add(name=name, number=number, type=FIELD.Type.Value(f"TYPE_{kind.upper()}"))
        field.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
        if kind in ("enum", "message"):
            field.type_name = ".shop.Colour" if kind == "enum" else ".shop.Item"
        if default and syntax == "proto2":
            field.default_value = default
    return descriptor_pb2.FileDescriptorSet(file=[file])


def described(syntax: str) -> tuple[list[bytes], bytes]:
    """Two orders, and the source that describes them."""
    files = description(syntax)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    full = make(
        **{"price": 1.5, "weights": [0.5, 2.0], "ids": [1, 2, 3], "big": 2**63 + 1, "counts": [2**32 - 1]},
        **{"names": ["x", "é"], "raw": b"a\0", "deltas": [-5], "colour": 5},
    )
    full.items.add(id=4)
    full.items.add()
    return [full.SerializeToString(), make(ids=[9], paid=True).SerializeToString()], (
        b"bytes://" + files.SerializeToString()
    )


ORDERS, SOURCE = described("proto2")
FOUND = {
    "price": (tf.float64, [1, 0], [[1.5], [0.0]]),
    "weights": (tf.float32, [2, 0], [[0.5, 2.0], [0.0, 0.0]]),
    "ids": (tf.int64, [3, 1], [[1, 2, 3], [9, 0, 0]]),
    "big": (tf.uint64, [1, 0], [[2**63 + 1], [0]]),
    "counts": (tf.uint32, [1, 0], [[2**32 - 1], [0]]),
    "paid": (tf.bool, [0, 1], [[False], [True]]),
    "names": (tf.string, [2, 0], [[b"x", "é".encode()], [b"", b""]]),
    "raw": (tf.string, [1, 0], [[b"a\0"], [b""]]),
    "deltas": (tf.int64, [1, 0], [[-5], [0]]),
    "colour": (tf.int32, [1, 0], [[5], [0]]),
    "items": (tf.string, [2, 0], [[b"\x08\x04", b""], [b"", b""]]),
    "stars": (tf.int32, [0, 0], [[7], [7]]),
}


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_fields_of_all_kinds(syntax: str) -> None:
    orders, source = described(syntax)
    types = [kind for kind, _, _ in FOUND.values()]
    sizes, values = tf.io.decode_proto(orders, "shop.Order", [*FOUND], types, source)
    expected = {name: (sizes, values) for name, (_, sizes, values) in FOUND.items()}
    if syntax == "proto3":
        expected["stars"] = ([0, 0], [[0], [0]])
    found = zip(FOUND, sizes.numpy().T.tolist(), values, strict=True)
    assert {name: (size, each.numpy().tolist()) for name, size, each in found} == expected
    dtypes = [np.dtype(str) if each is tf.string else np.dtype(each) for each in types]
    assert [each.dtype for each in values] == dtypes


def test_sizes_and_values_have_the_shape_of_the_messages(tmp_path: Path) -> None:
    file = tmp_path / "shop.desc"
    file.write_bytes(SOURCE.removeprefix(b"bytes://"))
    for given, shape in ((ORDERS[0], ()), (ORDERS, (2,)), ([[each] for each in ORDERS], (2, 1))):
        found = tf.io.decode_proto(given, "shop.Order", ["ids", "counts"], [tf.int64, tf.uint64], str(file))
        assert found.sizes.shape == (*shape, 2)
        assert [each.shape for each in found.values] == [(*shape, 3), (*shape, 1)]


def test_text_and_datasets() -> None:
    texts = ["ids: 3 ids: 4", ""]
    _, (ids,) = tf.io.decode_proto(texts, "shop.Order", ["ids"], [tf.int64], SOURCE, message_format="text")
    assert ids.numpy().tolist() == [[3, 4], [0, 0]]
    orders = tf.data.Dataset.from_tensor_slices(ORDERS * 4).batch(2)
    read = orders.map(lambda each: tf.io.decode_proto(each, "shop.Order", ["ids"], [tf.int64], SOURCE)[1][0])
    assert np.concatenate(list(read.as_numpy_iterator())).tolist() == [[1, 2, 3], [9, 0, 0]] * 4


def test_examples_are_described_without_a_source() -> None:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    features = tf.train.Features(feature={"b": feature, "a": tf.train.Feature()})
    example = tf.train.Example(features=features).SerializeToString()
    sizes, (found,) = tf.io.decode_proto([example], "tensorflow.Example", ["features"], [tf.string])
    assert (sizes.numpy().tolist(), found.numpy().tolist()) == ([[1]], [[features.SerializeToString()]])
    _, (entries,) = tf.io.decode_proto(found[0, 0], "tensorflow.Features", ["feature"], [tf.string])
    assert entries.numpy().tolist() == [b"\n\x01a\x12\x00", b"\n\x01b\x12\x06\x1a\x04\n\x02\x01\x02"]


@pytest.mark.parametrize(
    ("given", "name", "field", "kind", "source", "error", "message"),
    [
        (ORDERS, "shop.Order", "ids", tf.int32, SOURCE, ValueError, "ids: int32, where it is int64"),
        (ORDERS, "shop.Order", "colour", tf.string, SOURCE, ValueError, "string, where it is int32"),
        (ORDERS, "shop.Order", "nope", tf.int64, SOURCE, ValueError, "Unknown field: nope in message type"),
        (ORDERS, "shop.Nope", "ids", tf.int64, SOURCE, ValueError, "No descriptor found for message type"),
        (ORDERS, "shop.Order", "ids", tf.int64, "local://", ValueError, "No descriptor found"),
        (ORDERS, "shop.Order", "ids", tf.int64, "/no/such", ValueError, "'/no/such'.*protoc"),
        (ORDERS, "shop.Order", "ids", tf.int64, b"bytes://\xff", ValueError, "does not represent"),
        ([b"\xff\xff"], "shop.Order", "ids", tf.int64, SOURCE, DatasetError, "is no shop.Order"),
        ([], "shop.Order", "ids", tf.int64, SOURCE, ValueError, "at least one value"),
    ],
)
def test_mistakes_are_named(
    given: Any, name: str, field: str, kind: Any, source: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tf.io.decode_proto(given, name, [field], [kind], source)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="same length, got 1 and 2"):
        tf.io.decode_proto(ORDERS, "shop.Order", ["ids"], [tf.int64, tf.int64], SOURCE)
    with pytest.raises(ValueError, match="binary or text, got 'json'"):
        tf.io.decode_proto(ORDERS, "shop.Order", ["ids"], [tf.int64], SOURCE, message_format="json")
