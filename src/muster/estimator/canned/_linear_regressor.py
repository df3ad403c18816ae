"""`LinearRegressor`, a canned Estimator."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator
from muster.estimator.loop._warm_start import WarmStartSettings

if TYPE_CHECKING:
    from muster.estimator.canned._optimizer_makers import OptimizerLike
    from muster.feature_column import CategoricalColumn, DenseColumn, NumericColumn


class LinearRegressor(CannedEstimator):
    """An `Estimator` that predicts numbers by a linear model of features.

    The input has features in a dict, each of shape (batch, ...), and labels of shape (batch,
    label_dimension), or (batch,) for one number. Predictions are ``{"predictions": ...}``, float32 of shape
    (label_dimension,) for each example. `evaluate` returns ``average_loss``, ``label/mean`` and
    ``prediction/mean`` beside ``loss``; weights count in them.

    Args:
        feature_columns: The features that the model reads, as columns of `muster.feature_column`.
        model_dir: As for `Estimator`.
        label_dimension: How many numbers an example's label has.
        weight_column: The key of a feature that weighs examples, of shape (batch,) or (batch, 1), or single
            numbers of labels, of shape (batch, label_dimension); or a numeric column of it. None weighs all
            alike.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, with the learning rate
            min(0.2, 1 / sqrt(number of columns)); a Keras optimizer, which is copied from its
            configuration; or a function without arguments that returns a new one.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"``, the mean of the weighted squares over the numbers of the
            labels, or ``"sum"``. Replicas' losses are averaged, or added.
        sparse_combiner: How the weights of several ids of a categorical column add up: ``"sum"``, ``"mean"``
            or ``"sqrtn"``.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The columns cannot make a model, or another argument is none of the above.

    Source: ``LinearRegressorV2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(
        self,
        feature_columns: "Iterable[DenseColumn | CategoricalColumn] | DenseColumn | CategoricalColumn",
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: "str | NumericColumn | None" = None,
        optimizer: "OptimizerLike" = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        # Imported here, because all programs with Estimators import this module, and few use canned ones.
        from muster.estimator.canned._linear_model import linear_columns, linear_model_fn
        from muster.estimator.heads._regression_head import RegressionHead

        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        columns = linear_columns(feature_columns)
        model_fn = linear_model_fn(columns, head, optimizer, sparse_combiner)
        super().__init__(model_fn, columns, model_dir, config, warm_start_from)
