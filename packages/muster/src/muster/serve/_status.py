"""Answers about the versions of a model, and its signatures.

Source: tensorflow_serving/apis/get_model_status.proto and get_model_metadata.proto, as JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from muster.data import TensorSpec

_NAMES = {"object": "STRING", "float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}


@dataclass(frozen=True, kw_only=True)
class VersionStatus:
    """The status of a version.

    Attributes:
        version: Its number.
        state: ``END`` if it was served before, or could not be loaded.
        error: Why it could not be loaded; empty if it could.
    """

    version: int
    state: Literal["LOADING", "AVAILABLE", "END"]
    error: str = ""


class _DescribedSignature(Protocol):
    """The parts of a signature that answers describe."""

    @property
    def method_name(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...
    @property
    def outputs(self) -> Mapping[str, TensorSpec]: ...


def status_answer(versions: Iterable[VersionStatus]) -> dict[str, Any]:
    """Return how it stands with versions, the newest first."""
    return {
        "model_version_status": [
            {
                "version": str(each.version),
                "state": each.state,
                "status": {"error_code": "UNKNOWN" if each.error else "OK", "error_message": each.error},
            }
            for each in sorted(versions, key=lambda each: -each.version)
        ]
    }


def metadata_answer(
    model: str, version: int, signatures: Mapping[str, _DescribedSignature]
) -> dict[str, Any]:
    """Return the signatures of a version.

    Args:
        model: The name of the model.
        version: The number of the version.
        signatures: Its signatures by name.
    """
    described = {
        name: {
            "inputs": {key: _tensor(key, spec) for key, spec in signature.inputs.items()},
            "outputs": {key: _tensor(key, spec) for key, spec in signature.outputs.items()},
            "method_name": signature.method_name,
            "defaults": {},
        }
        for name, signature in signatures.items()
    }
    return {
        "model_spec": {"name": model, "signature_name": "", "version": str(version)},
        "metadata": {"signature_def": {"signature_def": described}},
    }


def _tensor(name: str, spec: TensorSpec) -> dict[str, Any]:
    sizes = spec.shape or ()
    return {
        "dtype": f"DT_{_dtype_name(spec.dtype)}",
        "tensor_shape": {
            "dim": [{"size": str(-1 if size is None else size), "name": ""} for size in sizes],
            "unknown_rank": spec.shape is None,
        },
        "name": name,
    }


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return _NAMES.get(str(dtype), str(dtype).upper())
