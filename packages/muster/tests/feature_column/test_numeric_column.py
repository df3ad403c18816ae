"""Numeric columns: TensorFlow's cases, and what columns are as values."""

import dataclasses

import jax
import ml_dtypes
import numpy as np
import pytest

from muster.data import Example, Feature, Features, FixedLenFeature, FloatList, parse_example
from muster.feature_column import (
    dense_features,
    make_parse_example_spec,
    numeric_column,
    sorted_columns,
)


@pytest.mark.oracle
def test_a_column_is_a_value():
    one = numeric_column("x", shape=[2, 1], default_value=[[1], [2]], dtype=np.float64)
    assert one == numeric_column("x", np.array([2, 1]), np.array([[1], [2]]), "float64")
    assert len({one, numeric_column("x", (2, 1), ((1,), (2,)), "float64")}) == 1
    assert one != numeric_column("x", (2, 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.key = "y"
    assert (one.name, one.num_elements) == ("x", 2)
    assert repr(numeric_column("x")) == (
        "NumericColumn(key='x', shape=(1,), default_value=None, dtype=dtype('float32'), normalizer_fn=None)"
    )


def test_one_default_stands_for_all():
    assert numeric_column("x", (2, 2), 7).default_value == ((7, 7), (7, 7))
    assert numeric_column("x", 3, 0.5).shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"default_value": 0.5, "dtype": "int32"}, "default_value must be compatible with dtype"),
        ({"default_value": "zero"}, "default_value must be compatible with dtype"),
        ({"default_value": True}, "default_value must be compatible with dtype"),
        ({"shape": True}, "shape dimensions must be integer"),
        ({"shape": "3"}, "shape dimensions must be integer"),
    ],
)
def test_arguments_of_a_wrong_type(arguments, message):
    with pytest.raises(TypeError, match=message):
        numeric_column("x", **arguments)


def test_a_default_that_is_no_array():
    with pytest.raises(ValueError, match=r"default_value is no array.*\[\[1\], \[2, 3\]\], key: x"):
        numeric_column("x", shape=(2, 2), default_value=[[1], [2, 3]])


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_dtypes_that_are_not_of_real_numbers(dtype):
    with pytest.raises(ValueError, match=f"convertible to float. dtype: {dtype}, key: x"):
        numeric_column("x", dtype=dtype)


def test_what_a_model_takes():
    x, a = numeric_column("x"), numeric_column("a")
    assert sorted_columns([x, a]) == (a, x)
    assert sorted_columns(x) == (x,)
    assert sorted_columns(each for each in (x, a)) == (a, x)
    with pytest.raises(
        ValueError, match="Items of feature_columns must be a DenseColumn. You can wrap .*Given: 'x'"
    ):
        sorted_columns(["x"])
    with pytest.raises(ValueError, match="found dict"):
        sorted_columns({"x": x})


def test_in_a_step_in_any_dtype_of_real_numbers():
    columns = [numeric_column("x", (2, 2)), numeric_column("a", normalizer_fn=lambda a: a - 1)]
    features = {
        "x": np.arange(8, dtype=ml_dtypes.bfloat16).reshape(2, 2, 2),
        "a": np.array([3, 5], np.int8),
    }
    values = jax.jit(lambda given: dense_features(given, columns))(features)
    np.testing.assert_array_equal(values, [[2, 0, 1, 2, 3], [4, 4, 5, 6, 7]])
    with pytest.raises(ValueError, match="Feature x has dtype complex64"):
        dense_features({"x": np.ones((2, 4), np.complex64), "a": features["a"]}, columns)


@pytest.mark.parametrize("normalizer", [lambda x: x.sum(), lambda x: x[1:]], ids=["a number", "fewer rows"])
def test_a_normalizer_keeps_the_examples(normalizer):
    column = numeric_column("x", 2, normalizer_fn=normalizer)
    with pytest.raises(ValueError, match="normalizer_fn of x was called with 3 examples"):
        dense_features({"x": np.ones((3, 2))}, column)


def test_reading_examples_for_columns():
    columns = [numeric_column("x", 2), numeric_column("y", default_value=7.0)]
    spec = make_parse_example_spec(columns)
    assert spec == {
        "x": FixedLenFeature((2,), np.dtype("float32")),
        "y": FixedLenFeature((1,), np.dtype("float32"), (7.0,)),
    }
    feature = Feature(float_list=FloatList(value=[1.0, 2.0]))
    example = Example(features=Features(feature={"x": feature})).SerializeToString()
    np.testing.assert_array_equal(dense_features(parse_example([example], spec), columns), [[1, 2, 7]])
    with pytest.raises(ValueError, match="different parse_spec for key x"):
        make_parse_example_spec([columns[0], numeric_column("x")])
    with pytest.raises(ValueError, match="must be FeatureColumn instances. Given: 'x'"):
        make_parse_example_spec(["x"])
