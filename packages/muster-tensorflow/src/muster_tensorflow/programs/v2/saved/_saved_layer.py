"""``tf.keras.layers.TFSMLayer``: a saved model as a layer, also without TensorFlow."""

import os
from collections.abc import Mapping
from typing import Any

from muster import keras
from muster.extend import local_path
from muster_tensorflow.programs.v2.saved._model_signatures import DEFAULT
from muster_tensorflow.programs.v2.saved_model import load

_SERVE = "serve"
"""Keras' name of what ``model.export`` saves, which returns the outputs in no dict."""


class TFSMLayer(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """Computes what a saved model does, with the weights that it was saved with.

    Args:
        filepath: The folder that ``model.export`` or `tf.saved_model.save` has written.
        call_endpoint: The signature to call: ``serve``, which is what ``model.export`` saves, or one of
            `tf.saved_model.load`, which returns a dict.
        call_training_endpoint: Another one for training; None for the same.
        trainable: Unused: the weights stay as they are.
        name: The name of the layer.
        dtype: Its type.

    Raises:
        ValueError: There is no such signature.

    Source: keras/src/export/tfsm_layer.py of Keras 3, ``TFSMLayer``.
    """

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        call_endpoint: str = _SERVE,
        call_training_endpoint: str | None = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, autocast=False)
        self.filepath = local_path(filepath)
        self.call_endpoint, self.call_training_endpoint = call_endpoint, call_training_endpoint
        self._signatures = dict(load(filepath).signatures)
        for endpoint in (call_endpoint, call_training_endpoint or call_endpoint):
            if _signature(endpoint) not in self._signatures:
                raise ValueError(
                    f"The saved model has no endpoint {endpoint!r}. There are: {', '.join(self._signatures)}."
                )
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return what the endpoint computes: of an array, or of arrays by name or in a list."""
        endpoint = (training and self.call_training_endpoint) or self.call_endpoint
        signature = self._signatures[_signature(endpoint)]
        if isinstance(inputs, Mapping):
            outputs = signature(**inputs)
        else:
            outputs = signature(*(inputs if isinstance(inputs, list | tuple) else [inputs]))
        if endpoint != _SERVE:
            return outputs
        return next(iter(outputs.values())) if len(outputs) == 1 else [*outputs.values()]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments; the folder must be there when a layer is made of them."""
        own = ("filepath", "call_endpoint", "call_training_endpoint")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


def _signature(endpoint: str) -> str:
    return DEFAULT if endpoint == _SERVE else endpoint
