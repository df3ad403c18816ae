"""``tf.contrib.predictor``: functions from dicts of inputs to dicts of outputs, of exported models.

Source: tensorflow/contrib/predictor/, of TensorFlow 1.15.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from muster import saved_model
from muster.data import TensorSpec
from muster.estimator import Estimator, ModeKeys
from muster.extend import local_path


class Predictor:
    """Calls a signature of an exported model.

    Args:
        signature: The signature.
    """

    def __init__(self, signature: saved_model.Signature) -> None:
        self._signature = signature

    @property
    def feed_tensors(self) -> Mapping[str, TensorSpec]:
        """The inputs' shapes and dtypes by name."""
        return self._signature.inputs

    @property
    def fetch_tensors(self) -> Mapping[str, TensorSpec]:
        """The outputs' shapes and dtypes by name."""
        return self._signature.outputs

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the outputs by name: NumPy arrays, text as bytes.

        Args:
            input_dict: Arrays or nested lists by name, whose first axis counts examples.

        Raises:
            ValueError: An input is missing or unknown, or has another shape or dtype.
        """
        return self._signature(**input_dict)


def from_saved_model(
    export_dir: str | bytes | os.PathLike[str],
    signature_def_key: str | None = None,
    signature_def: None = None,
    input_names: None = None,
    output_names: None = None,
    tags: object = None,
    graph: object = None,
    config: object = None,
) -> Predictor:
    """Return the predictor of an exported model.

    Args:
        export_dir: The directory that an export has written.
        signature_def_key: The signature; None for ``"serving_default"``.
        signature_def: Only None, as the next two: tensors have no names here.
        input_names: Only None.
        output_names: Only None.
        tags: Unused, as the rest.
        graph: Unused.
        config: Unused.

    Raises:
        ValueError: There is no such signature, or tensors are named.
    """
    if signature_def or input_names or output_names:
        raise ValueError("There are no tensors to name: give signature_def_key, or nothing.")
    signatures = saved_model.load(local_path(export_dir)).signatures
    key = signature_def_key or "serving_default"
    if key not in signatures:
        raise ValueError(f"Got signature_def_key {key!r}. Available signatures are {sorted(signatures)}.")
    return Predictor(signatures[key])


def from_estimator(
    estimator: Estimator,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: object = None,
    config: object = None,
) -> Predictor:
    """Return the predictor of an Estimator, with the values of its newest checkpoint, else with initial ones.

    Args:
        estimator: The Estimator.
        serving_input_receiver_fn: As for ``export_saved_model``.
        output_key: The key in ``export_outputs``; None for the default one.
        graph: Unused.
        config: Unused.
    """
    with tempfile.TemporaryDirectory() as folder:
        exported = estimator._export(folder, {ModeKeys.PREDICT: serving_input_receiver_fn})
        return from_saved_model(exported, output_key)
