"""Dense layers over columns: `DNNClassifier`, `DNNEstimator` and `DNNRegressor`."""

import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from muster._keras import keras
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator, Part, classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.estimator.heads._regression_head import RegressionHead
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.feature_column import DenseColumn, Features, NumericColumn, dense_features, sorted_columns

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


class DNNEstimator(CannedEstimator):
    """An `Estimator` whose logits are those of dense layers over features.

    Args:
        head: Turns logits into predictions, loss and metrics.
        hidden_units: The number of units of each hidden layer, from the input on.
        feature_columns: The features that the model reads, as columns of `muster.feature_column`.
        model_dir: As for `Estimator`.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, with the learning rate
            0.001; a Keras optimizer, which is copied from its configuration; or a function without arguments
            that returns a new one.
        activation_fn: The activation of the hidden layers: a function, the name of one of Keras', or None.
        dropout: The share of a hidden layer's units that training drops; None for none.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        batch_norm: Whether to normalize each hidden layer by the statistics of the batch.

    Raises:
        ValueError: The columns cannot make a model, or another argument is none of the above.

    Source: ``DNNEstimatorV2`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Iterable[DenseColumn] | DenseColumn,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        logits = DNNLogits(hidden_units, feature_columns, activation_fn, dropout, batch_norm)
        super().__init__(head, [dnn_part(logits, optimizer)], model_dir, config, warm_start_from)


class DNNClassifier(DNNEstimator):
    """An `Estimator` that predicts classes by dense layers over features.

    Args:
        hidden_units: As for `DNNEstimator`.
        feature_columns: As for `DNNEstimator`.
        model_dir: As for `Estimator`.
        n_classes: As for `LinearClassifier`, and so the following.
        weight_column: The key or numeric column of the examples' weights.
        label_vocabulary: The names of the classes, if labels are text.
        optimizer: As for `DNNEstimator`.
        activation_fn: As for `DNNEstimator`.
        dropout: As for `DNNEstimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: As for `DNNEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The columns cannot make a model, or another argument is out of range.

    Source: ``DNNClassifierV2`` (tensorflow_estimator/python/estimator/canned/dnn.py).

    Example:
        ```python
        columns = [muster.feature_column.numeric_column("x")]
        classifier = muster.estimator.DNNClassifier([16, 8], columns, n_classes=3, optimizer="Adam")
        ```
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[DenseColumn] | DenseColumn,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        super().__init__(
            classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            config,
            warm_start_from,
            batch_norm,
        )


class DNNRegressor(DNNEstimator):
    """An `Estimator` that predicts numbers by dense layers over features.

    Args:
        hidden_units: As for `DNNEstimator`.
        feature_columns: As for `DNNEstimator`.
        model_dir: As for `Estimator`.
        label_dimension: As for `LinearRegressor`, and so the following.
        weight_column: The key or numeric column of the weights of examples or of single numbers.
        optimizer: As for `DNNEstimator`.
        activation_fn: As for `DNNEstimator`.
        dropout: As for `DNNEstimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: As for `DNNEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The columns cannot make a model, or another argument is out of range.

    Source: ``DNNRegressorV2`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[DenseColumn] | DenseColumn,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            config,
            warm_start_from,
            batch_norm,
        )
