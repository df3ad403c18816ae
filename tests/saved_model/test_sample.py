"""Inputs for a signature that say nothing."""

import numpy as np

from muster.data import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, parse_example
from muster.saved_model._manifest import FeatureRecord, ParseRecord, SignatureRecord, TensorRecord
from muster.saved_model._sample import sample_inputs


def test_inputs_are_zeros_empty_text_and_examples_with_all_features():
    parsed = [
        ParseRecord(key="a", kind="fixed", dtype="float32", shape=(2,)),
        ParseRecord(key="b", kind="sequence", dtype="int64", shape=()),
        ParseRecord(key="c", kind="variable", dtype="str"),
        ParseRecord(key="d", kind="fixed", dtype="str", shape=()),
    ]
    record = SignatureRecord(
        method_name="tensorflow/serving/predict",
        inputs={
            "x": TensorRecord(dtype="float32", shape=(None, 3, None)),
            "word": TensorRecord(dtype="object", shape=(None,)),
            "examples": TensorRecord(dtype="object", shape=(None,)),
        },
        outputs={},
        features={each.key: FeatureRecord(input="examples", parse=each) for each in parsed},
        columns=(),
        arguments={},
        rows=None,
        module="",
        weights=(),
    )

    inputs = sample_inputs(record, 2)

    np.testing.assert_array_equal(inputs["x"], np.zeros((2, 3, 1), np.float32), strict=True)
    assert inputs["word"].tolist() == [b"", b""]
    found = parse_example(
        inputs["examples"],
        {
            "a": FixedLenFeature((2,), "float32"),
            "b": FixedLenSequenceFeature((), "int64", True),
            "c": VarLenFeature(str),
            "d": FixedLenFeature((), str),
        },
    )
    assert found["a"].tolist() == [[0.0, 0.0]] * 2
    assert found["b"].tolist() == [[0]] * 2
    assert found["c"].values.tolist() == [b""] * 2
    assert found["d"].tolist() == [b"", b""]
