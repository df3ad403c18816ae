"""Answers about versions and signatures."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np

from muster.data import TensorSpec
from muster.serve._status import VersionStatus, metadata_answer, status_answer


def test_versions_come_newest_first():
    versions = [VersionStatus(version=1, state="END"), VersionStatus(version=12, state="AVAILABLE")]
    versions.append(VersionStatus(version=7, state="END", error="broken"))

    def told(version, state, code="OK", message=""):
        return {
            "version": version,
            "state": state,
            "status": {"error_code": code, "error_message": message},
        }

    assert status_answer(versions) == {
        "model_version_status": [
            told("12", "AVAILABLE"),
            told("7", "END", "UNKNOWN", "broken"),
            told("1", "END"),
        ]
    }


def test_signatures():
    signature = SimpleNamespace(
        method_name="tensorflow/serving/predict",
        inputs={"x": TensorSpec((None, 2), np.float32)},
        outputs={"y": TensorSpec((None,), object)},
    )

    def tensor(name, dtype, *sizes):
        dims = [{"size": size, "name": ""} for size in sizes]
        return {"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": name}

    assert metadata_answer("m", 3, {"serving_default": signature}) == {
        "model_spec": {"name": "m", "signature_name": "", "version": "3"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "serving_default": {
                        "inputs": {"x": tensor("x", "DT_FLOAT", "-1", "2")},
                        "outputs": {"y": tensor("y", "DT_STRING", "-1")},
                        "method_name": "tensorflow/serving/predict",
                        "defaults": {},
                    }
                }
            }
        },
    }


def test_dtypes_have_the_names_of_tensorflow():
    dtypes = {"float16": "DT_HALF", "float64": "DT_DOUBLE", "int64": "DT_INT64", "uint8": "DT_UINT8"}
    dtypes |= {"bool": "DT_BOOL", ml_dtypes.bfloat16: "DT_BFLOAT16", "complex64": "DT_COMPLEX64"}
    inputs = {str(dtype): TensorSpec((), np.dtype(dtype)) for dtype in dtypes}
    signature = SimpleNamespace(method_name="", inputs=inputs, outputs={})
    answer = metadata_answer("m", 1, {"s": signature})
    told = answer["metadata"]["signature_def"]["signature_def"]["s"]["inputs"]
    assert [each["dtype"] for each in told.values()] == list(dtypes.values())
