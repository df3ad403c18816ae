"""Canned models of a linear and a deep part: `DNNLinearCombinedClassifier` and its like."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator, Part, classifier_head
from muster.estimator.canned._dnn import Activation, DNNLogits, dnn_part
from muster.estimator.canned._linear import LinearColumns, linear_part
from muster.estimator.canned._optimizer_makers import OptimizerLike
from muster.estimator.heads._head import Head
from muster.estimator.heads._regression_head import RegressionHead
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.feature_column import DenseColumn, FeatureColumn, NumericColumn

_LARGEST_LINEAR_RATE = 0.005

DNNColumns: TypeAlias = Iterable[DenseColumn] | DenseColumn | None
"""Columns of the dense layers; None or no columns leave them out."""


class DNNLinearCombinedEstimator(CannedEstimator):
    """An `Estimator` whose logits are the sum of a linear model's and of dense layers' ("wide and deep").

    Each of the two has an optimizer of its own; a step trains both on one loss.

    Args:
        head: Turns logits into predictions, loss and metrics.
        model_dir: As for `Estimator`.
        linear_feature_columns: The features that the linear model reads; None for no linear model.
        linear_optimizer: As for `LinearEstimator`; one that is given by name has the learning rate min(0.005,
            1 / sqrt(number of columns)).
        dnn_feature_columns: The features that the dense layers read; None for no dense layers.
        dnn_optimizer: As for `DNNEstimator`.
        dnn_hidden_units: The number of units of each hidden layer, from the input on.
        dnn_activation_fn: As for `DNNEstimator`.
        dnn_dropout: The share of a hidden layer's units that training drops; None for none.
        config: As for `Estimator`.
        batch_norm: As for `DNNEstimator`.
        linear_sparse_combiner: As for `LinearEstimator`.
        warm_start_from: As for `Estimator`.

    Raises:
        ValueError: There are no columns at all, or columns for dense layers and no units, or another argument
            is none of the above.

    Source: ``DNNLinearCombinedEstimatorV2``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerLike = "Ftrl",
        dnn_feature_columns: DNNColumns = None,
        dnn_optimizer: OptimizerLike = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        *,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        linear, dnn = _listed(linear_feature_columns), _listed(dnn_feature_columns)
        if not linear and not dnn:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
        parts: list[Part] = []
        if dnn:
            if not dnn_hidden_units:
                raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
            layers = DNNLogits(dnn_hidden_units, dnn, dnn_activation_fn, dnn_dropout, batch_norm)
            parts.append(dnn_part(layers, dnn_optimizer))
        if linear:
            parts.append(linear_part(linear, linear_optimizer, linear_sparse_combiner, _LARGEST_LINEAR_RATE))
        super().__init__(head, parts, model_dir, config, warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """An `Estimator` that predicts classes by a linear model and dense layers together.

    Args:
        model_dir: As for `Estimator`.
        linear_feature_columns: As for `DNNLinearCombinedEstimator`, and so all that begins with ``linear_``
            or ``dnn_``.
        linear_optimizer: The optimizer of the linear model.
        dnn_feature_columns: The features that the dense layers read.
        dnn_optimizer: The optimizer of the dense layers.
        dnn_hidden_units: The number of units of each hidden layer.
        dnn_activation_fn: The activation of the hidden layers.
        dnn_dropout: The share of a hidden layer's units that training drops.
        n_classes: As for `LinearClassifier`, and so the following.
        weight_column: The key or numeric column of the examples' weights.
        label_vocabulary: The names of the classes, if labels are text.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: As for `DNNEstimator`.
        linear_sparse_combiner: As for `LinearEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: As for `DNNLinearCombinedEstimator`.

    Source: ``DNNLinearCombinedClassifierV2``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).

    Example:
        ```python
        column = muster.feature_column
        words = column.categorical_column_with_hash_bucket("word", 100)
        classifier = muster.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=[words],
            dnn_feature_columns=[column.numeric_column("x"), column.embedding_column(words, 4)],
            dnn_hidden_units=[8],
        )
        rows = {"word": np.array([b"a", b"b"]), "x": np.zeros(2)}, np.array([0, 1])
        classifier.train(lambda: Dataset.from_tensor_slices(rows).repeat().batch(2), steps=1)
        ```
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerLike = "Ftrl",
        dnn_feature_columns: DNNColumns = None,
        dnn_optimizer: OptimizerLike = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from=warm_start_from,
        )


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """An `Estimator` that predicts numbers by a linear model and dense layers together.

    Args:
        model_dir: As for `Estimator`.
        linear_feature_columns: As for `DNNLinearCombinedEstimator`, and so all that begins with ``linear_``
            or ``dnn_``.
        linear_optimizer: The optimizer of the linear model.
        dnn_feature_columns: The features that the dense layers read.
        dnn_optimizer: The optimizer of the dense layers.
        dnn_hidden_units: The number of units of each hidden layer.
        dnn_activation_fn: The activation of the hidden layers.
        dnn_dropout: The share of a hidden layer's units that training drops.
        label_dimension: As for `LinearRegressor`, and so the following.
        weight_column: The key or numeric column of the weights of examples or of single numbers.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: As for `DNNEstimator`.
        linear_sparse_combiner: As for `LinearEstimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: As for `DNNLinearCombinedEstimator`.

    Source: ``DNNLinearCombinedRegressorV2``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerLike = "Ftrl",
        dnn_feature_columns: DNNColumns = None,
        dnn_optimizer: OptimizerLike = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from=warm_start_from,
        )


def _listed(feature_columns: Iterable[Any] | FeatureColumn | None) -> tuple[Any, ...]:
    return (feature_columns,) if isinstance(feature_columns, FeatureColumn) else tuple(feature_columns or ())
