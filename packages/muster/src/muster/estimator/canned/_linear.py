"""Linear models of feature columns: `LinearClassifier`, `LinearEstimator` and `LinearRegressor`."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import jax

from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator, Part, classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.estimator.heads._regression_head import RegressionHead
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.feature_column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    NumericColumn,
    linear_model,
    require_combiner,
    sorted_columns,
)

LinearColumns: TypeAlias = Iterable[DenseColumn | CategoricalColumn] | DenseColumn | CategoricalColumn
"""One column, or columns in any order, dense or categorical."""


class LinearLogits:
    """Weighted sums of columns, as logits.

    The variables have TensorFlow's names: ``linear/linear_model/<column>/weights`` and
    ``linear/linear_model/bias_weights``.

    Args:
        feature_columns: The features that the model reads.
        sparse_combiner: How the weights of several ids of a column add up: ``"sum"``, ``"mean"`` or
            ``"sqrtn"``.

    Raises:
        ValueError: The columns cannot make a model, or there is no such combiner.

    Source: ``_linear_model_fn_v2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(self, feature_columns: LinearColumns, sparse_combiner: str) -> None:
        require_combiner(sparse_combiner)
        self.columns = sorted_columns(feature_columns, wanted=(DenseColumn, CategoricalColumn))
        self._sparse_combiner = sparse_combiner

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the sums: float32 of shape (batch, units)."""
        scope = ("linear", "linear_model")
        return linear_model(features, self.columns, units, self._sparse_combiner, scope=scope)


def linear_part(
    feature_columns: LinearColumns,
    optimizer: OptimizerLike,
    sparse_combiner: str,
    largest_rate: float = 0.2,
) -> Part:
    """Return a linear model as a part of a canned one.

    Args:
        feature_columns: As for `LinearLogits`.
        optimizer: Updates the weights; one that is given by name has the learning rate
            min(largest_rate, 1 / sqrt(number of columns)).
        sparse_combiner: As for `LinearLogits`.
        largest_rate: The limit of that learning rate.

    Raises:
        ValueError: There is no such optimizer, or as for `LinearLogits`.
    """
    logits = LinearLogits(feature_columns, sparse_combiner)
    rate = min(largest_rate, 1 / math.sqrt(len(logits.columns)))
    return Part(logits, optimizer_maker(optimizer, rate), scope="linear/")


class LinearEstimator(CannedEstimator):
    """An `Estimator` whose logits are a linear model of features.

    Args:
        head: Turns logits into predictions, loss and metrics.
        feature_columns: The features that the model reads, as columns of `muster.feature_column`.
        model_dir: As for `Estimator`.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, with the learning rate
            min(0.2, 1 / sqrt(number of columns)); a Keras optimizer, which is copied from its
            configuration; or a function without arguments that returns a new one.
        config: As for `Estimator`.
        sparse_combiner: How the weights of several ids of a categorical column add up: ``"sum"``, ``"mean"``
            or ``"sqrtn"``.
        warm_start_from: As for `Estimator`.

    Raises:
        ValueError: The columns cannot make a model, or another argument is none of the above.

    Source: ``LinearEstimatorV2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(
        self,
        head: Head,
        feature_columns: LinearColumns,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        part = linear_part(feature_columns, optimizer, sparse_combiner)
        super().__init__(head, [part], model_dir, config, warm_start_from)


class LinearClassifier(LinearEstimator):
    """An `Estimator` that predicts classes by a linear model of features.

    The input has features in a dict, each of shape (batch, ...), and labels of shape (batch,) or (batch, 1):
    numbers of classes from 0 on, or text if there is a vocabulary. Predictions and metrics are those of
    `BinaryClassHead` or `MultiClassHead`.

    Args:
        feature_columns: As for `LinearEstimator`.
        model_dir: As for `Estimator`.
        n_classes: How many classes there are.
        weight_column: The key of a feature that weighs examples, of shape (batch,) or (batch, 1); or a
            numeric column of it. None weighs all alike.
        label_vocabulary: The names of the classes, if labels are text.
        optimizer: As for `LinearEstimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"``, the mean of the weighted losses, or ``"sum"``. Replicas'
            losses are averaged, or added.
        sparse_combiner: As for `LinearEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The columns cannot make a model, or another argument is none of the above.

    Source: ``LinearClassifierV2`` (tensorflow_estimator/python/estimator/canned/linear.py).

    Example:
        ```python
        words = muster.feature_column.categorical_column_with_hash_bucket("word", 1000)
        classifier = muster.estimator.LinearClassifier([words])
        ```
    """

    def __init__(
        self,
        feature_columns: LinearColumns,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, sparse_combiner, warm_start_from
        )


class LinearRegressor(LinearEstimator):
    """An `Estimator` that predicts numbers by a linear model of features.

    The input has features in a dict, each of shape (batch, ...), and labels of shape (batch,
    label_dimension), or (batch,) for one number. Predictions are ``{"predictions": ...}``, float32 of shape
    (label_dimension,) for each example. `evaluate` returns ``average_loss``, ``label/mean`` and
    ``prediction/mean`` beside ``loss``; weights count in them.

    Args:
        feature_columns: As for `LinearEstimator`.
        model_dir: As for `Estimator`.
        label_dimension: How many numbers an example's label has.
        weight_column: The key of a feature that weighs examples, of shape (batch,) or (batch, 1), or single
            numbers of labels, of shape (batch, label_dimension); or a numeric column of it. None weighs all
            alike.
        optimizer: As for `LinearEstimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"``, the mean of the weighted squares over the numbers of the
            labels, or ``"sum"``. Replicas' losses are averaged, or added.
        sparse_combiner: As for `LinearEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The columns cannot make a model, or another argument is none of the above.

    Source: ``LinearRegressorV2`` (tensorflow_estimator/python/estimator/canned/linear.py).

    Example:
        ```python
        numbers = muster.feature_column.numeric_column("x")
        regressor = muster.estimator.LinearRegressor([numbers], "runs/line", optimizer="Adam")
        x = np.linspace(-1, 1, 64)
        rows = Dataset.from_tensor_slices(({"x": x}, 3 * x)).batch(16)
        regressor.train(lambda: rows.repeat(), steps=4)
        assert regressor.evaluate(lambda: rows)["label/mean"] < 1e-6
        ```
    """

    def __init__(
        self,
        feature_columns: LinearColumns,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, sparse_combiner, warm_start_from
        )
