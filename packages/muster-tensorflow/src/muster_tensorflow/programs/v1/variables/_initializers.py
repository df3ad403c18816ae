"""TensorFlow 1's initializers: those of Keras with TensorFlow 1's arguments and defaults.

Source: tensorflow/python/ops/init_ops.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster import keras
from muster_tensorflow.library.ops._arrays import DTypeLike

_initializers: Any = keras.initializers


class zeros_initializer(_initializers.Zeros):  # type: ignore[misc]  # keras is untyped
    """Zeros; ``dtype`` is unused, since a variable says its own."""

    def __init__(self, dtype: DTypeLike = None) -> None:
        super().__init__()


class ones_initializer(_initializers.Ones):  # type: ignore[misc]
    """Ones; ``dtype`` is unused."""

    def __init__(self, dtype: DTypeLike = None) -> None:
        super().__init__()


class constant_initializer(_initializers.Constant):  # type: ignore[misc]
    """A number, or numbers in the order of the variable's values, where the last one fills what is left.

    Source: tensorflow/python/framework/constant_op.py, ``constant_v1``, which ``verify_shape`` is passed to.
    """

    def __init__(
        self,
        value: float | Sequence[Any] | np.ndarray[Any, Any] = 0,
        dtype: DTypeLike = None,
        verify_shape: bool = False,
        *,
        support_partition: bool = False,
    ) -> None:
        super().__init__(value)
        self._verify_shape = verify_shape

    def __call__(self, shape: Sequence[int], dtype: DTypeLike = None) -> Any:
        """Return the value in a shape.

        Raises:
            TypeError: ``verify_shape`` is True, and the value has another shape.
            ValueError: There are more numbers than the shape has, or none.
        """
        if not np.ndim(self.value):
            return super().__call__(shape, dtype)
        values, count = np.ravel(self.value), int(np.prod(shape))
        if self._verify_shape and np.shape(self.value) != tuple(shape):
            raise TypeError(f"Expected a value of the shape {tuple(shape)}, got: {np.shape(self.value)}.")
        if not 0 < len(values) <= count:
            raise ValueError(f"A variable of the shape {tuple(shape)} cannot have {len(values)} values.")
        filled = np.concatenate([values, np.broadcast_to(values[-1], count - len(values))])
        return keras.ops.cast(filled.reshape(shape), dtype or "float32")


class random_normal_initializer(_initializers.RandomNormal):  # type: ignore[misc]
    """Normally distributed numbers; ``dtype`` is unused."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(mean, stddev, seed)


class truncated_normal_initializer(_initializers.TruncatedNormal):  # type: ignore[misc]
    """Normally distributed numbers within two standard deviations; ``dtype`` is unused."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(mean, stddev, seed)


class random_uniform_initializer(_initializers.RandomUniform):  # type: ignore[misc]
    """Uniformly distributed numbers; ``maxval`` None is 1, and ``dtype`` is unused."""

    def __init__(
        self,
        minval: float = 0.0,
        maxval: float | None = None,
        seed: int | None = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(minval, 1.0 if maxval is None else maxval, seed)


class KerasRandomNormal(random_normal_initializer):
    """Normally distributed numbers, with the defaults of Keras."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(mean, stddev, seed)


class KerasTruncatedNormal(truncated_normal_initializer):
    """Normally distributed numbers within two standard deviations, with the defaults of Keras."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(mean, stddev, seed)


class KerasRandomUniform(random_uniform_initializer):
    """Uniformly distributed numbers, with the defaults of Keras."""

    def __init__(
        self,
        minval: float = -0.05,
        maxval: float = 0.05,
        seed: int | None = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(minval, maxval, seed)


class variance_scaling_initializer(_initializers.VarianceScaling):  # type: ignore[misc]
    """Random numbers whose variance depends on the shape; ``dtype`` is unused."""

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: DTypeLike = None,
    ) -> None:
        form = "truncated_normal" if distribution == "normal" else distribution
        super().__init__(scale, mode, form, seed)


class uniform_unit_scaling_initializer(_initializers.VarianceScaling):  # type: ignore[misc]
    """Uniformly distributed numbers that keep the scale of a layer's inputs; ``dtype`` is unused."""

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: DTypeLike = None) -> None:
        super().__init__(factor**2, "fan_in", "uniform", seed)


class orthogonal_initializer(_initializers.Orthogonal):  # type: ignore[misc]
    """Orthogonal matrices; ``dtype`` is unused."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: DTypeLike = None) -> None:
        super().__init__(gain, seed)


class identity_initializer(_initializers.Identity):  # type: ignore[misc]
    """Identity matrices; ``dtype`` is unused."""

    def __init__(self, gain: float = 1.0, dtype: DTypeLike = None) -> None:
        super().__init__(gain)


class glorot_uniform_initializer(_initializers.GlorotUniform):  # type: ignore[misc]
    """Glorot's uniformly distributed numbers; ``dtype`` is unused."""

    def __init__(self, seed: int | None = None, dtype: DTypeLike = None) -> None:
        super().__init__(seed)


class glorot_normal_initializer(_initializers.GlorotNormal):  # type: ignore[misc]
    """Glorot's normally distributed numbers; ``dtype`` is unused."""

    def __init__(self, seed: int | None = None, dtype: DTypeLike = None) -> None:
        super().__init__(seed)
