"""Canned Estimators of TensorFlow 1 with dense layers."""

from collections.abc import Sequence

from muster import estimator as v2
from muster.estimator import Head, RunConfig
from muster.feature_column import NumericColumn
from muster_tensorflow.programs.v1.estimator._arguments import (
    DNN_RATE,
    Activation,
    Columns,
    OptimizerV1,
    Path,
    WarmStart,
    as_optimizer,
    as_reduction,
    require_no_partitioner,
)
from muster_tensorflow.programs.v1.losses import Reduction


class DNNClassifier(v2.DNNClassifier):
    """Predict classes by dense layers over features.

    Source: ``DNNClassifier`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerV1 = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=as_optimizer(optimizer, DNN_RATE),
            activation_fn=activation_fn,
            dropout=dropout,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            batch_norm=batch_norm,
        )


class DNNEstimator(v2.DNNEstimator):
    """Compute logits by dense layers over features.

    Source: ``DNNEstimator`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: Path | None = None,
        optimizer: OptimizerV1 = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart = None,
        batch_norm: bool = False,
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            head=head,
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            optimizer=as_optimizer(optimizer, DNN_RATE),
            activation_fn=activation_fn,
            dropout=dropout,
            config=config,
            warm_start_from=warm_start_from,
            batch_norm=batch_norm,
        )


class DNNRegressor(v2.DNNRegressor):
    """Predict numbers by dense layers over features.

    Source: ``DNNRegressor`` (tensorflow_estimator/python/estimator/canned/dnn.py).
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerV1 = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=as_optimizer(optimizer, DNN_RATE),
            activation_fn=activation_fn,
            dropout=dropout,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            batch_norm=batch_norm,
        )
