"""Canned models of dense layers: `DNNClassifier`, `DNNEstimator` and `DNNRegressor`."""

import os
from collections.abc import Iterable, Sequence

from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator
from muster.estimator.canned._dnn_model import Activation, DNNLogits, dnn_part
from muster.estimator.canned._heads import classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike
from muster.estimator.heads._head import Head
from muster.estimator.heads._regression_head import RegressionHead
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.feature_column import DenseColumn, NumericColumn


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
