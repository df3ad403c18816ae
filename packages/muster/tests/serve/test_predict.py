"""Bodies of ``:predict``, and their answers."""

import json
import math

import ml_dtypes
import numpy as np
import pytest

from muster import RequestError
from muster.data import TensorSpec
from muster.serve._predict import Format, predict_answer, predict_inputs, signature_name
from muster.serve._tensors import read_json

ONE = {"x": TensorSpec((None, 2), np.float32)}
TWO = {"age": TensorSpec((None,), np.int64), "town": TensorSpec((None,), object)}


def only(dtype, shape=(None,)):
    return {"x": TensorSpec(shape, np.dtype(dtype))}


def test_rows_of_one_input():
    inputs, form = predict_inputs({"instances": [[1, 2.5], [3, 4]]}, ONE)
    assert form is Format.ROWS
    np.testing.assert_array_equal(inputs["x"], np.array([[1, 2.5], [3, 4]], np.float32), strict=True)


def test_rows_of_several_inputs():
    rows = [{"age": 3, "town": "ulm"}, {"town": {"b64": "a8ZsbgA="}, "age": -1}]
    inputs, _ = predict_inputs({"instances": rows}, TWO)
    np.testing.assert_array_equal(inputs["age"], np.array([3, -1]), strict=True)
    assert inputs["town"].tolist() == [b"ulm", b"k\xc6ln\0"]


def test_columns():
    inputs, form = predict_inputs({"inputs": {"age": [1, 2], "town": ["a", "b"]}}, TWO)
    assert form is Format.COLUMNS
    assert inputs["age"].tolist() == [1, 2]
    inputs, _ = predict_inputs({"inputs": [[1, 2]]}, ONE)
    assert inputs["x"].shape == (1, 2)
    inputs, _ = predict_inputs({"inputs": {"x": [[1, 2]]}}, ONE)
    assert inputs["x"].shape == (1, 2)


def test_a_single_input_is_a_scalar_or_bytes():
    assert predict_inputs({"inputs": 3}, only("int32", ()))[0]["x"] == 3
    assert predict_inputs({"inputs": {"b64": "YQ"}}, only(object, ()))[0]["x"].item() == b"a"


@pytest.mark.parametrize("instances", [[{"b64": "YQ=="}, "b"], [{"x": {"b64": "YQ=="}}, {"x": "b"}]])
def test_rows_of_bytes(instances):
    assert predict_inputs({"instances": instances}, only(object))[0]["x"].tolist() == [b"a", b"b"]


def test_an_input_may_be_called_b64_if_it_is_no_string():
    inputs, _ = predict_inputs({"instances": [{"b64": 1}]}, {"b64": TensorSpec((None,), np.int32)})
    assert inputs["b64"].tolist() == [1]


def test_numbers_that_are_none():
    body = b'{"instances": [NaN, Infinity, -Infinity]}'
    found = predict_inputs(read_json(body), only("float32"))[0]["x"].tolist()
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("request_", "specs", "message"),
    [
        ({}, ONE, "neither"),
        ({"signature_name": "a"}, ONE, "neither"),
        ({"instances": [[1, 2]], "inputs": [[1, 2]]}, ONE, "both"),
        ({"instances": []}, ONE, "a list of one or more"),
        ({"instances": {"x": 1}}, ONE, "a list of one or more"),
        ({"instances": [[1, 2], [3]]}, ONE, "differ in length or depth at level 2"),
        ({"instances": [[1, 2], 3]}, ONE, "differ in length or depth at level 2"),
        ({"instances": [[1, [2]]]}, ONE, "takes values of dtype float32"),
        ({"instances": [[1, 2, 3]]}, ONE, r"shape \[1, 3\], and the signature wants \[any, 2\]"),
        ({"instances": [1]}, ONE, r"shape \[1\], and"),
        ({"inputs": [1]}, ONE, r"shape \[1\], and"),
        ({"instances": [["a", 1]]}, ONE, 'float32, got "a"'),
        ({"instances": [[True, 1]]}, ONE, "float32, got true"),
        ({"instances": [[None, 1]]}, ONE, "float32, got null"),
        ({"instances": [[1e39, 1]]}, ONE, "float32 cannot hold"),
        ({"instances": [[1, 1 << 24]]}, ONE, "16777216 exactly"),
        ({"instances": [[1, 10**400]]}, ONE, "exactly in dtype float32"),
        ({"instances": [10**400]}, only("float64"), "exactly in dtype float64"),
        ({"instances": [1.0]}, only("int32"), "int32, got 1.0"),
        ({"instances": [True]}, only("int64"), "int64, got true"),
        ({"instances": [1 << 31]}, only("int32"), "from -2147483648 to 2147483647"),
        ({"instances": [-1]}, only("uint8"), "from 0 to 255"),
        ({"instances": [1]}, only("bool"), "bool, got 1"),
        ({"instances": [1]}, only(object), "strings"),
        ({"instances": [{"b64": "!"}]}, only(object), "base64"),
        ({"instances": ["\ud800"]}, only(object), "half a character"),
        ({"instances": [{"x": 1}, 2]}, only("int32"), "number 1 is not as"),
        ({"instances": [1, {"x": 2}]}, only("int32"), "number 1 is not as"),
        ({"instances": [1]}, TWO, "several inputs"),
        ({"inputs": [1]}, TWO, "several inputs"),
        ({"instances": [{"age": 1}]}, TWO, "missing: 'town'"),
        ({"instances": [{"age": 1, "town": "a", "z": 1}]}, TWO, "unknown: 'z'"),
        ({"inputs": {"age": [1]}}, TWO, "missing: 'town'"),
        ({"inputs": {"age": [1], "town": ["a"], "z": 1}}, TWO, "unknown: 'z'"),
    ],
)
def test_wrong_requests_are_refused(request_, specs, message):
    with pytest.raises(RequestError, match=message) as refused:
        predict_inputs(request_, specs)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"1", b"\xff", b'{"a": ' + b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}"],
    ids=lambda body: repr(body[:8]),
)
def test_what_is_no_json_object_is_refused(body):
    with pytest.raises(RequestError):
        read_json(body)


def test_the_name_of_the_signature():
    assert signature_name({}) == ""
    assert signature_name({"signature_name": ""}) == ""
    assert signature_name({"signature_name": "a"}) == "a"
    with pytest.raises(RequestError, match="must be a string"):
        signature_name({"signature_name": 1})


OUTPUTS = {
    "scores": np.array([[0.1, 1 / 3], [1.0, 2.0]], np.float32),
    "classes": np.array([b"own", b"rent"], object),
}


def test_answers_in_rows():
    assert predict_answer(OUTPUTS, Format.ROWS) == {
        "predictions": [
            {"scores": [0.1, 0.333333343], "classes": "own"},
            {"scores": [1.0, 2.0], "classes": "rent"},
        ]
    }
    assert predict_answer({"y": np.array([3, 4])}, Format.ROWS) == {"predictions": [3, 4]}


def test_answers_in_columns():
    assert predict_answer(OUTPUTS, Format.COLUMNS) == {
        "outputs": {"scores": [[0.1, 0.333333343], [1.0, 2.0]], "classes": ["own", "rent"]}
    }
    assert predict_answer({"y": np.array(3)}, Format.COLUMNS) == {"outputs": 3}


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (np.array([True, False]), [True, False]),
        (np.array([1 << 63], np.uint64), [1 << 63]),
        (np.array([1 / 3]), [1 / 3]),
        (np.array([0.1, -math.inf], ml_dtypes.bfloat16), [0.100097656, -math.inf]),
        (np.zeros((2, 0, 3), np.float32), [[], []]),
        (np.zeros((2, 3, 0), np.float32), [[[], [], []], [[], [], []]]),
        (np.float32([[[1]], [[2]]]), [[[1.0]], [[2.0]]]),
        (np.float32([9e6, 3e-5, 16777217.0, 1.17549435e-38]), [9e6, 3e-5, 16777216.0, 1.17549435e-38]),
    ],
)
def test_values_of_every_dtype(array, value):
    answer = predict_answer({"y": array}, Format.COLUMNS)
    assert answer == {"outputs": value}
    assert json.loads(json.dumps(answer)) == answer


def test_bytes_are_base64_if_the_name_says_so_or_they_are_no_text():
    values = np.array([b"a", b"\xff"], object)
    assert predict_answer({"y": values}, Format.ROWS) == {"predictions": ["a", {"b64": "/w=="}]}
    assert predict_answer({"y_bytes": values}, Format.ROWS) == {
        "predictions": [{"b64": "YQ=="}, {"b64": "/w=="}]
    }


@pytest.mark.parametrize("outputs", [{"y": np.array(3)}, {"y": np.zeros(2), "z": np.zeros(3)}])
def test_outputs_without_common_rows_have_no_answer_in_rows(outputs):
    with pytest.raises(RequestError, match='Send "inputs"'):
        predict_answer(outputs, Format.ROWS)
