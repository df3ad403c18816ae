"""Dense layers over feature columns."""

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from muster._keras import keras
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.canned._canned_estimator import Part
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.feature_column import DenseColumn, Features, dense_features, sorted_columns

_LEARNING_RATE = 0.001

Activation = Callable[[jax.Array], jax.Array] | str | None
"""A function of an array, the name of one of Keras', or None for none."""


class DNNLogits:
    """Dense layers over columns, whose last one computes logits.

    The variables have TensorFlow's names: ``dnn/hiddenlayer_<n>/kernel`` and ``bias``,
    ``dnn/hiddenlayer_<n>/batchnorm_<n>/gamma`` and the like, and ``dnn/logits/kernel`` and ``bias``.

    Args:
        hidden_units: The number of units of each hidden layer, from the input on.
        feature_columns: The features that the model reads.
        activation_fn: The activation of the hidden layers.
        dropout: The share of a hidden layer's units that training drops; None for none.
        batch_norm: Whether to normalize each hidden layer by the statistics of the batch, after dropout.

    Raises:
        ValueError: An argument is out of range, or the columns cannot make a model.

    Source: ``_DNNModelV2`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[DenseColumn] | DenseColumn,
        activation_fn: Activation,
        dropout: float | None,
        batch_norm: bool,
    ) -> None:
        self.columns = sorted_columns(feature_columns)
        self._hidden_units = _checked_units(hidden_units)
        if dropout is not None and not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, or None. Given: {dropout}")
        self._activation_fn, self._dropout, self._batch_norm = activation_fn, dropout, batch_norm

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the last layer's values, without an activation: float32 of shape (batch, units)."""
        training = mode == ModeKeys.TRAIN
        with keras.name_scope("dnn"):
            with keras.name_scope("input_from_feature_columns"), keras.name_scope("input_layer"):
                values: Any = dense_features(features, self.columns)
            for number, size in enumerate(self._hidden_units):
                name = f"hiddenlayer_{number}"
                values = keras.layers.Dense(size, self._activation_fn, name=name)(values)
                if self._dropout and training:
                    values = keras.layers.Dropout(self._dropout)(values, training=True)
                if self._batch_norm:
                    with keras.name_scope(name):
                        layer = keras.layers.BatchNormalization(momentum=0.999, name=f"batchnorm_{number}")
                        values = layer(values, training=training)
            values = keras.layers.Dense(units, name="logits")(values)
        logits: jax.Array = values
        return logits


def dnn_part(logits: DNNLogits, optimizer: OptimizerLike) -> Part:
    """Return dense layers as a part of a canned model; an optimizer by name has the learning rate 0.001.

    Raises:
        ValueError: There is no such optimizer.
    """
    return Part(logits, optimizer_maker(optimizer, _LEARNING_RATE), scope="dnn/")


def _checked_units(hidden_units: Sequence[int]) -> tuple[int, ...]:
    # TensorFlow's layers take numbers that are text, as programs read them of their arguments.
    sizes = tuple(int(size) if isinstance(size, str) and size.isdecimal() else size for size in hidden_units)
    for size in sizes:
        if not isinstance(size, numbers.Integral) or size < 1:
            raise ValueError(f"hidden_units must be positive integers. Given: {sizes}")
    return tuple(map(int, sizes))
