"""Parsing Examples, and raw numbers."""

import re
from typing import Any

import numpy as np
import pytest
from tfrecord_examples import MANY, ONE, example

from muster._errors import DatasetError
from muster.data import (
    BytesList,
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    FloatList,
    Int64List,
    SparseTensor,
    VarLenFeature,
    decode_raw,
    parse_example,
    parse_single_example,
)


def test_numbers_that_are_not_packed_are_read() -> None:
    int64 = b"\x1a\x05\x08\x07\x08\x80\x01"  # Feature: int64_list: 7, 128
    entry = b"\x0a\x01a\x12" + bytes([len(int64)]) + int64
    inner = b"\x0a" + bytes([len(entry)]) + entry
    parsed = parse_single_example(
        b"\x0a" + bytes([len(inner)]) + inner, {"a": FixedLenFeature([2], np.int64)}
    )
    np.testing.assert_array_equal(parsed["a"], [7, 128])


def test_parsing_one_and_many() -> None:
    features = {
        "int64_a": FixedLenFeature([], np.int64),
        "float_a": FixedLenFeature([1, 3], np.float32),
        "bytes_a": FixedLenFeature(2, str),
        "gone": FixedLenFeature([2], np.int64, default_value=-1),
        "text": FixedLenFeature([], str, default_value="none"),
        "nothing": FixedLenFeature([], np.float32, default_value=0.5),
        "int64_many": FixedLenSequenceFeature([], np.int64, allow_missing=True),
    }
    other = example(**{**ONE, "int64_a": [8], "int64_many": [5]})
    one = parse_single_example(example(**ONE), features)
    assert one["int64_a"] == 7
    assert one["int64_a"].dtype == np.int64
    assert one["text"] == b"none"
    np.testing.assert_array_equal(one["float_a"], np.array([ONE["float_a"]], np.float32))
    many = parse_example(np.array([example(**ONE), other], object), features)
    np.testing.assert_array_equal(many["int64_a"], [7, 8])
    assert many["float_a"].shape == (2, 1, 3)
    assert many["bytes_a"].tolist() == [ONE["bytes_a"]] * 2
    np.testing.assert_array_equal(many["gone"], [[-1, -1]] * 2)
    assert many["text"].tolist() == [b"none"] * 2
    np.testing.assert_array_equal(many["nothing"], np.array([0.5, 0.5], np.float32))
    np.testing.assert_array_equal(many["int64_many"][1], [5] + [0] * (len(MANY) - 1))
    assert {name: array.shape for name, array in parse_example([], features).items()}["float_a"] == (0, 1, 3)


def test_any_number_of_values_become_sparse_tensors() -> None:
    features = {"int64_many": VarLenFeature(np.int64), "bytes_a": VarLenFeature(str)}
    few = example(int64_many=[5], bytes_a=[])
    many = parse_example([few, example(**ONE)], features)
    assert isinstance(many["int64_many"], SparseTensor)
    np.testing.assert_array_equal(many["int64_many"].to_dense(), [[5] + [0] * (len(MANY) - 1), MANY])
    assert many["bytes_a"].shape == (2, len(ONE["bytes_a"]))
    assert many["bytes_a"].values.tolist() == ONE["bytes_a"]
    one = parse_single_example(example(**ONE), features)
    np.testing.assert_array_equal(one["int64_many"].to_dense(), MANY)
    none = parse_example([example(int64_a=[1])], features)
    assert none["int64_many"].shape == (1, 0)
    assert none["int64_many"].dtype == np.int64


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"int64_many": VarLenFeature(np.float32)}, "'int64_many'.* type int64, where float was asked for"),
        ({"gone": FixedLenFeature([], np.int64)}, "The feature 'gone' of example 0 of the batch is required"),
        ({"int64_a": FixedLenFeature([], np.float32)}, "'int64_a'.* type int64, where float was asked for"),
        (
            {"int64_a": FixedLenFeature([3], np.int64)},
            r"'int64_a'.* has 1 values, where its shape \(3,\) needs 3",
        ),
        (
            {"float_a": FixedLenSequenceFeature([2], np.float32, allow_missing=True)},
            "'float_a'.* has 3 values, no multiple of the 2",
        ),
    ],
)
def test_what_an_example_lacks_is_named(spec: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        parse_example([example(**ONE), example(**ONE)], spec)


def test_descriptions_of_features_are_checked() -> None:
    with pytest.raises(ValueError, match="dtype float32, int64 or string, got uint8"):
        FixedLenFeature([], np.uint8)
    with pytest.raises(ValueError, match="allow_missing=True"):
        parse_single_example(b"", {"a": FixedLenSequenceFeature([], np.int64)})
    with pytest.raises(TypeError, match="The feature 'a' is described by 'VarLen'"):
        parse_single_example(b"", {"a": "VarLen"})
    with pytest.raises(ValueError, match="dtype float32, int64 or string, got int32"):
        VarLenFeature(np.int32)
    with pytest.raises(ValueError, match="Name the features"):
        parse_single_example(b"", {})
    with pytest.raises(TypeError, match="A BytesList holds bytes, got 'a'"):
        BytesList(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="An Int64List holds integers"):
        Int64List([0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="A Feature has values of one kind, got 2"):
        Feature(int64_list=Int64List([1]), float_list=FloatList([1]))


def test_raw_numbers() -> None:
    np.testing.assert_array_equal(decode_raw(b"\x01\x00\x02\x00", np.uint16), [1, 2])
    np.testing.assert_array_equal(decode_raw(b"\x00\x01", np.int16, little_endian=False), [1])
    np.testing.assert_array_equal(
        decode_raw(np.array([b"ab", b"cd"], object), np.uint8), [[97, 98], [99, 100]]
    )
    with pytest.raises(DatasetError, match="3 bytes, which are no whole number of int16"):
        decode_raw(b"abc", np.int16)
    with pytest.raises(DatasetError, match=r"equally long, got lengths \[1, 2\]"):
        decode_raw(np.array([b"a", b"bc"], object), np.uint8)


@pytest.mark.parametrize(
    ("dtype", "default"), [(np.int64, 0.5), (np.float32, "x"), (str, 3), (np.int64, [1, None])]
)
def test_defaults_of_another_type(dtype: type, default: object) -> None:
    with pytest.raises(ValueError, match=rf"default_value .* cannot be {re.escape(repr(default))}"):
        FixedLenFeature([2], dtype, default)
    with pytest.raises(ValueError, match="cannot be"):
        FixedLenSequenceFeature([], dtype, allow_missing=True, default_value=default)
