"""Layers that run on the host, for text: JAX has no string arrays."""

from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import Placeholder
from muster.program import StandIn
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.library.ops._host_placeholder import compute_on_host
from muster_tensorflow.library.ops._one_shot import compute_for_next

# Whether a function is tried on texts that stand for any: they need not be in a vocabulary.
on_example: ContextVar[bool] = ContextVar("muster_on_example", default=False)


class HostLayer(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """A layer without weights whose ``call`` takes and returns NumPy arrays.

    Functions for `Dataset.map` may call it, and so may eager code. A functional or sequential model that has
    it computes it before its steps: see ``keras2/_text_models.py``.

    Args:
        name: The layer's name; None makes one of the class.
        kwargs: ``dtype`` and ``trainable``, which Keras gives to every layer, and which change nothing here.
    """

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        if other := kwargs.keys() - {"dtype", "trainable"}:
            raise TypeError(f"{type(self).__name__} has no argument {min(other)!r}.")
        super().__init__(name=name)
        # Keras leaves the inputs as they are.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def __call__(self, inputs: Any) -> Any:
        """Map values, or make a part of a model of a symbolic tensor.

        Raises:
            TypeError: The inputs are values of a compiled function.
        """
        leaves = inputs if isinstance(inputs, list | tuple) else [inputs]
        if any(isinstance(each, StandIn) for each in leaves):
            return compute_for_next(HostLayer.__call__, (self, inputs), {})
        if any(isinstance(each, Placeholder) for each in leaves):
            return compute_on_host(HostLayer.__call__, (self, inputs), {})
        if any(isinstance(each, keras.KerasTensor) for each in leaves):
            return super().__call__(inputs)
        for each in leaves[:2]:
            require_host_values(self, each)
        return shown_result(self.call(inputs))

    def call(self, inputs: Any) -> Any:
        """Map values."""
        raise NotImplementedError

    def content_key(self) -> Any:
        """Return what makes layers equal that compute on the host for a step."""
        config = self.get_config()
        return [type(self).__qualname__, {key: config[key] for key in config.keys() - {"name"}}]

    def __reduce__(self) -> Any:
        return type(self).from_config, (self.get_config(),)


def require_host_values(layer: object, inputs: object) -> None:
    """Check that the inputs of what computes on the host are known.

    Raises:
        TypeError: They are values of a model or of a compiled function.
    """
    if isinstance(inputs, keras.KerasTensor | jax.core.Tracer):
        raise TypeError(
            f"{type(layer).__name__} computes on the host, and takes no values of compiled functions: call "
            "it in Dataset.map. Only layers may also stand in functional models that begin with keras.Input."
        )


def no_vocabulary_yet(layer: object, mode: str) -> ValueError:
    """Return the error of a layer that becomes a part of a model, and whose results have no size yet."""
    return ValueError(
        f"{type(layer).__name__} with output_mode={mode!r} needs its vocabulary before it is a part of a "
        "model, which has to know its size: give one, or call adapt before."
    )


def symbolic(shape: tuple[int | None, ...], dtype: str) -> Any:
    """Return a symbolic tensor of a shape, and of the dtype that steps have for a dtype."""
    return keras.KerasTensor(shape, dtype if dtype == "string" else of_steps(dtype))


def of_steps(dtype: str) -> str:
    """Return the dtype of steps for a dtype: they have 32 bits unless JAX is set to 64."""
    return str(jax.dtypes.canonicalize_dtype(keras.backend.standardize_dtype(dtype)))


def is_text(tensor: Any) -> bool:
    """Return whether a symbolic tensor stands for text."""
    return isinstance(tensor, keras.KerasTensor) and tensor.dtype == "string"


def spec_by_example(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the symbolic results of a function of text, which it is tried on: JAX cannot trace it.

    Args:
        function: Takes and returns NumPy arrays.
        args: Its arguments, some of which hold symbolic tensors.
        kwargs: Its named arguments.
    """

    def of(size: int, text: str) -> Any:
        def example(value: Any) -> Any:
            if not isinstance(value, keras.KerasTensor):
                return value
            shape = [size if each is None else each for each in value.shape]
            return np.full(shape, text) if is_text(value) else np.zeros(shape, value.dtype)

        made = jax.tree.map(
            example, (args, kwargs), is_leaf=lambda each: isinstance(each, keras.KerasTensor | None)
        )
        return jax.tree.map(np.asarray, function(*made[0], **made[1]))

    def spec(first: Any, second: Any) -> Any:
        sizes = zip(first.shape, second.shape, strict=True)
        shape = tuple(None if size != other else size for size, other in sizes)
        return symbolic(shape, "string" if first.dtype.kind in "USO" else str(first.dtype))

    token = on_example.set(True)
    try:
        return jax.tree.map(spec, of(2, "a"), of(3, "a b c"))
    finally:
        on_example.reset(token)
