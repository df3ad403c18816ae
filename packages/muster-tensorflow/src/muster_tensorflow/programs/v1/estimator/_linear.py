"""Canned Estimators of TensorFlow 1 with a linear model."""

from collections.abc import Sequence

from muster import estimator as v2
from muster.estimator import Head, RunConfig
from muster.extend import LinearColumns
from muster.feature_column import NumericColumn
from muster_tensorflow.programs.v1.estimator._arguments import (
    OptimizerV1,
    Path,
    WarmStart,
    as_optimizer,
    as_reduction,
    require_no_partitioner,
)
from muster_tensorflow.programs.v1.losses import Reduction


class LinearClassifier(v2.LinearClassifier):
    """Predict classes by a linear model of features.

    Source: ``LinearClassifier`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(
        self,
        feature_columns: LinearColumns,
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
        partitioner: None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        require_no_partitioner(partitioner)
        super().__init__(
            feature_columns=feature_columns,
            model_dir=model_dir,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=as_optimizer(optimizer),
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            sparse_combiner=sparse_combiner,
        )


class LinearEstimator(v2.LinearEstimator):
    """Compute logits by a linear model of features.

    Source: ``LinearEstimator`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(
        self,
        head: Head,
        feature_columns: LinearColumns,
        model_dir: Path | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
        partitioner: None = None,
        sparse_combiner: str = "sum",
        warm_start_from: WarmStart = None,
    ) -> None:
        require_no_partitioner(partitioner)
        super().__init__(
            head=head,
            feature_columns=feature_columns,
            model_dir=model_dir,
            optimizer=as_optimizer(optimizer),
            config=config,
            sparse_combiner=sparse_combiner,
            warm_start_from=warm_start_from,
        )


class LinearRegressor(v2.LinearRegressor):
    """Predict numbers by a linear model of features.

    Source: ``LinearRegressor`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(
        self,
        feature_columns: LinearColumns,
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
        partitioner: None = None,
        warm_start_from: WarmStart = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        require_no_partitioner(partitioner)
        super().__init__(
            feature_columns=feature_columns,
            model_dir=model_dir,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=as_optimizer(optimizer),
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=as_reduction(loss_reduction),
            sparse_combiner=sparse_combiner,
        )
