"""Canned Estimators of TensorFlow 1 with a linear part and a deep one."""

from collections.abc import Sequence

from muster import estimator as v2
from muster.estimator import Head, RunConfig
from muster.extend import LinearColumns
from muster.feature_column import NumericColumn
from muster_tensorflow.programs.v1.estimator._arguments import (
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


class DNNLinearCombinedClassifier(v2.DNNLinearCombinedClassifier):
    """Predict classes by a linear model and dense layers together.

    Source: ``DNNLinearCombinedClassifier``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """

    def __init__(
        self,
        model_dir: Path | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerV1 = "Ftrl",
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: OptimizerV1 = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=as_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=as_optimizer(dnn_optimizer),
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
        )


class DNNLinearCombinedEstimator(v2.DNNLinearCombinedEstimator):
    """Add the logits of a linear model and of dense layers.

    Source: ``DNNLinearCombinedEstimator``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """

    def __init__(
        self,
        head: Head,
        model_dir: Path | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerV1 = "Ftrl",
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: OptimizerV1 = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            head=head,
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=as_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=as_optimizer(dnn_optimizer),
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            config=config,
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
        )


class DNNLinearCombinedRegressor(v2.DNNLinearCombinedRegressor):
    """Predict numbers by a linear model and dense layers together.

    Source: ``DNNLinearCombinedRegressor``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """

    def __init__(
        self,
        model_dir: Path | None = None,
        linear_feature_columns: LinearColumns | None = None,
        linear_optimizer: OptimizerV1 = "Ftrl",
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: OptimizerV1 = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        input_layer_partitioner: None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_no_partitioner(input_layer_partitioner)
        super().__init__(
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=as_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=as_optimizer(dnn_optimizer),
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            label_dimension=label_dimension,
            weight_column=weight_column,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
        )
