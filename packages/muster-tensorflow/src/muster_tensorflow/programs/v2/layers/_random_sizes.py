"""``RandomHeight`` and ``RandomWidth``: images of another size in each batch, in input functions.

Source: keras/src/layers/preprocessing/image_preprocessing.py of Keras 2.15.
"""

from collections.abc import Sequence
from typing import Any

import jax

from muster import TraceError, keras
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.library.ops.images._image import resize


class _RandomSize(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """Stretches images along an axis, by another factor at each call while training; else leaves them.

    In eager code and in ``Dataset.map``. A compiled step has fixed shapes, so that `fit` of a model with it
    runs uncompiled, which is slow; under a strategy of several devices it is an error.

    Args:
        factor: By how much, as a share of the size: from ``-factor`` to ``factor``, or a pair of both ends.
        interpolation: As for ``tf.image.resize``.
        seed: A seed.
        **kwargs: As of ``keras.layers.Layer``.

    Raises:
        ValueError: The upper end is lower than the lower one, or one is below -1.
    """

    _axis = 0

    def __init__(
        self,
        factor: float | Sequence[float],
        interpolation: str = "bilinear",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_jit = False
        lower, upper = factor if isinstance(factor, list | tuple) else (-factor, factor)  # type: ignore[operator]
        if upper < lower:
            raise ValueError(
                "`factor` argument cannot have an upper bound lesser than the lower bound. "
                f"Received: {factor}"
            )
        if lower < -1.0 or upper < -1.0:
            raise ValueError(f"`factor` argument must have values larger than -1. Received: {factor}")
        self.factor, self.interpolation, self.seed = factor, interpolation, seed
        self._ends = lower, upper
        self._generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Any, training: bool = True) -> Any:
        if not training:
            return inputs
        if isinstance(inputs, jax.core.Tracer):
            raise TraceError(
                f"{type(self).__name__} makes images of another size in each batch, and a step is compiled "
                "for one. Put it into Dataset.map, with a Resizing behind it if batches follow, or use "
                "RandomZoom, whose fill_mode and height_factor stretch images, too."
            )
        size = list(inputs.shape[-3:-1])
        lower, upper = self._ends
        factor = float(keras.random.uniform((), 1 + lower, 1 + upper, seed=self._generator))
        size[self._axis] = int(size[self._axis] * factor)
        resized = resize(inputs, size, self.interpolation)
        return shown_result(keras.ops.cast(resized, self.compute_dtype))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Return the shape, whose size along the axis is not known."""
        shape = list(input_shape)
        shape[self._axis - 3] = None
        return tuple(shape)

    def compute_output_spec(self, inputs: Any, training: bool = True) -> Any:
        """Return what stands for the results in a functional model."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = {"factor": self.factor, "interpolation": self.interpolation, "seed": self.seed}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("muster")
class RandomHeight(_RandomSize):
    """Changes the height of images: see `_RandomSize`."""


@keras.saving.register_keras_serializable("muster")
class RandomWidth(_RandomSize):
    """Changes the width of images: see `_RandomSize`."""

    _axis = 1
