"""Layers whose variables are named as in ``tf.contrib.layers``, for programs that look them up by name.

A layer is a scope there, also in checkpoints: it has ``conv1/weights`` and ``conv1/biases``, and, where it is
normalized in place of biases, ``conv1/BatchNorm/beta``.

Source: tensorflow/contrib/layers/python/layers/layers.py, ``_build_variable_getter``.
"""

from typing import Any

from muster_tensorflow.programs.v1 import layers
from muster_tensorflow.programs.v1.variables._variables import VariableScope, get_variable_scope, next_name

_NAMES = {
    "kernel": "weights",
    "bias": "biases",
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
}


def _named(layer: Any) -> Any:
    class Named(layer):  # type: ignore[misc]  # keras is untyped
        def add_weight(self, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
            return super().add_weight(*args, name=_NAMES.get(name or "", name), **kwargs)

    Named.__name__ = Named.__qualname__ = layer.__name__
    return layers.function_of(Named, layer.__name__)


dense = _named(layers.Dense)
conv1d = _named(layers.Conv1D)
conv2d = _named(layers.Conv2D)
conv3d = _named(layers.Conv3D)
conv2d_transpose = _named(layers.Conv2DTranspose)
separable_conv2d = _named(layers.SeparableConv2D)


def name_of(scope: str | VariableScope | None, default: str) -> str:
    """Return the name of a layer in the scope around the call: the one given, else the next free one."""
    if isinstance(scope, VariableScope):
        return scope.name.removeprefix(get_variable_scope().name).strip("/")
    return next_name(default) if scope is None else scope
