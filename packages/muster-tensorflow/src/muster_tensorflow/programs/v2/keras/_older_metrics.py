"""Metrics of Keras 2 that Keras 3 does not have.

Source: keras/src/metrics/base_metric.py and regression_metrics.py of Keras 2.15.
"""

from collections.abc import Sequence
from typing import Any

from muster import keras


@keras.saving.register_keras_serializable("muster")
class MeanTensor(keras.metrics.Metric):  # type: ignore[misc]  # keras is untyped
    """The mean of arrays of one shape, element by element.

    Args:
        name: The metric's name.
        dtype: The dtype of the result.
        shape: The shape of the arrays; None for that of the first.
    """

    def __init__(
        self, name: str = "mean_tensor", dtype: Any = None, shape: Sequence[int] | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self._shape: tuple[int, ...] | None = None
        if shape is not None:
            self._make(tuple(shape))

    def _make(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.total, self.count = (self.add_variable(shape, "zeros", name=name) for name in ("total", "count"))

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add an array.

        Args:
            values: The array.
            sample_weight: Weights of its elements, of a shape that broadcasts, or of its first axes.

        Raises:
            ValueError: It has another shape than those before.
        """
        values = keras.ops.convert_to_tensor(values, self.dtype)
        if self._shape is None:
            self._make(tuple(values.shape))
        if tuple(values.shape) != self._shape:
            raise ValueError(f"MeanTensor has arrays of shape {self._shape}, got {tuple(values.shape)}.")
        weights = keras.ops.ones_like(values)
        if sample_weight is not None:
            given = keras.ops.convert_to_tensor(sample_weight, self.dtype)
            more = (1,) * max(values.ndim - given.ndim, 0)
            weights = weights * keras.ops.reshape(given, (*given.shape, *more))
        self.total.assign_add(values * weights)
        self.count.assign_add(weights)

    def result(self) -> Any:
        """Return the means, and 0 where nothing counts.

        Raises:
            ValueError: There is no array yet.
        """
        if self._shape is None:
            raise ValueError("MeanTensor has no array yet: call update_state, or give it a shape.")
        return keras.ops.divide_no_nan(self.total, self.count)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "shape": self._shape}


@keras.saving.register_keras_serializable("muster")
class MeanRelativeError(keras.metrics.Mean):  # type: ignore[misc]  # keras is untyped
    """The mean of errors, divided by given numbers.

    Args:
        normalizer: The numbers, of a shape that broadcasts to that of predictions.
        name: The metric's name; None for ``mean_relative_error``.
        dtype: The dtype of the result.
    """

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or "mean_relative_error", dtype=dtype)
        self.normalizer = keras.ops.convert_to_tensor(normalizer, self.dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the errors of a batch; those divided by 0 are 0."""
        y_true, y_pred = (keras.ops.convert_to_tensor(each, self.dtype) for each in (y_true, y_pred))
        errors = keras.ops.divide_no_nan(keras.ops.abs(y_true - y_pred), self.normalizer)
        super().update_state(errors, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "normalizer": keras.ops.convert_to_numpy(self.normalizer).tolist()}
