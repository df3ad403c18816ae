"""Bodies of ``:classify`` and ``:regress``, and their answers."""

from types import SimpleNamespace

import numpy as np
import pytest

from muster import RequestError
from muster.data import FixedLenFeature, TensorSpec, VarLenFeature, parse_example
from muster.serve._examples import check_signature, classify_answer, example_inputs, regress_answer

TEXT = TensorSpec((None,), object)


def parsed(request, **features):
    return parse_example(example_inputs(request)["inputs"], features)


def test_features_become_examples():
    request = {
        "context": {"year": 1999},
        "examples": [
            {"age": 2.5, "town": "köln", "ids": [1, 2], "raw": {"b64": "AP8="}},
            {"age": [3.0], "town": ["ulm"], "ids": True, "raw": [{"b64": "YQ=="}], "none": []},
        ],
    }
    found = parsed(
        request,
        year=FixedLenFeature((), "int64"),
        age=FixedLenFeature((), "float32"),
        town=FixedLenFeature((), object),
        raw=FixedLenFeature((), object),
        ids=VarLenFeature("int64"),
        none=VarLenFeature("float32"),
    )
    assert found["year"].tolist() == [1999, 1999]
    assert found["age"].tolist() == [2.5, 3.0]
    assert found["town"].tolist() == ["köln".encode(), b"ulm"]
    assert found["raw"].tolist() == [b"\0\xff", b"a"]
    assert found["ids"].values.tolist() == [1, 2, 1]
    assert found["none"].values.tolist() == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "a list of one or more"),
        ({"examples": []}, "a list of one or more"),
        ({"examples": {"a": 1}}, "a list of one or more"),
        ({"examples": [1]}, 'Number 0 of "examples" must be an object'),
        ({"examples": [{}], "context": []}, '"context" must be an object'),
        ({"examples": [{"a": None}]}, "Feature 'a'"),
        ({"examples": [{"a": [[1]]}]}, "Feature 'a'"),
        ({"examples": [{"a": {"b": 1}}]}, "Feature 'a'"),
        ({"examples": [{"a": [1, 2.5]}]}, "all have a decimal point"),
        ({"examples": [{"a": [1, "x"]}]}, "Feature 'a'"),
        ({"examples": [{"a": 1 << 63}]}, "int64"),
        ({"examples": [{"a": 1e39}]}, "float32"),
        ({"examples": [{"a": "\ud800"}]}, "half a character"),
    ],
)
def test_wrong_examples_are_refused(request_, message):
    with pytest.raises(RequestError, match=message):
        example_inputs(request_)


def test_what_a_signature_must_be():
    def signature(method, inputs):
        return SimpleNamespace(name="s", method_name=f"tensorflow/serving/{method}", inputs=inputs)

    check_signature(signature("classify", {"inputs": TEXT}), "classify")
    with pytest.raises(RequestError, match="'s' is for tensorflow/serving/predict"):
        check_signature(signature("predict", {"inputs": TEXT}), "classify")
    for inputs in ({"x": TEXT}, {"inputs": TEXT, "x": TEXT}, {"inputs": TensorSpec((None,), np.float32)}):
        with pytest.raises(RequestError, match="does not take serialized Examples"):
            check_signature(signature("regress", inputs), "regress")


def test_classes_and_scores():
    classes = np.array([[b"0", b"1"]] * 2, object)
    scores = np.array([[0.1, 0.9], [0.25, 0.75]], np.float32)
    assert classify_answer({"classes": classes, "scores": scores}) == {
        "results": [[["0", 0.1], ["1", 0.9]], [["0", 0.25], ["1", 0.75]]]
    }
    assert classify_answer({"scores": scores}) == {
        "results": [[["", 0.1], ["", 0.9]], [["", 0.25], ["", 0.75]]]
    }
    assert classify_answer({"classes": classes}) == {"results": [[["0", 0.0], ["1", 0.0]]] * 2}


@pytest.mark.parametrize(
    "outputs", [{}, {"scores": np.zeros(2)}, {"classes": np.zeros((2, 1)), "scores": np.zeros((2, 2))}]
)
def test_other_outputs_do_not_classify(outputs):
    with pytest.raises(RequestError, match="To classify"):
        classify_answer(outputs)


def test_regressions():
    for shape in ((2,), (2, 1)):
        array = np.array([0.1, 3], np.float32).reshape(shape)
        assert regress_answer({"outputs": array}) == {"results": [0.1, 3.0]}
    for outputs in ({}, {"outputs": np.zeros((2, 2))}, {"outputs": np.zeros(())}, {"y": np.zeros(2)}):
        with pytest.raises(RequestError, match="To regress"):
            regress_answer(outputs)
