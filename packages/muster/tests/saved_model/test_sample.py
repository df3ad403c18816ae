"""Inputs for a signature that say nothing."""

import numpy as np

from muster.data import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, parse_example
from muster.saved_model._manifest import CsvRecord, FeatureRecord, ParseRecord, SignatureRecord, TensorRecord
from muster.saved_model._signature import sample_inputs


def test_inputs_are_zeros_empty_text_and_examples_with_all_features():
    parsed = [
        ParseRecord(key="a", kind="fixed", dtype="float32", shape=(2,)),
        ParseRecord(key="b", kind="sequence", dtype="int64", shape=()),
        ParseRecord(key="c", kind="variable", dtype="str"),
        ParseRecord(key="d", kind="fixed", dtype="str", shape=()),
    ]
    form = CsvRecord(fields=None, field_delim="|", use_quote_delim=True, na_value="")
    fields = [ParseRecord(key=str(place), kind="csv", dtype="float32", csv=form) for place in (2, 1)]
    record = SignatureRecord(
        method_name="tensorflow/serving/predict",
        inputs={
            "x": TensorRecord(dtype="float32", shape=(None, 3, None)),
            "word": TensorRecord(dtype="object", shape=(None,)),
            "examples": TensorRecord(dtype="object", shape=(None,)),
            "lines": TensorRecord(dtype="object", shape=(None,)),
        },
        outputs={},
        features={
            **{each.key: FeatureRecord(input="examples", parse=each) for each in parsed},
            **{each.key: FeatureRecord(input="lines", parse=each) for each in fields},
        },
        columns=(),
        arguments={},
        rows=None,
        module="",
        weights=(),
    )

    inputs = sample_inputs(record, 2)

    np.testing.assert_array_equal(inputs["x"], np.zeros((2, 3, 1), np.float32), strict=True)
    assert inputs["word"].tolist() == [b"", b""]
    assert inputs["lines"].tolist() == [b"0|0|0"] * 2
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
