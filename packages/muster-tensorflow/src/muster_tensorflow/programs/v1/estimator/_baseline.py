"""Canned Estimators of TensorFlow 1 without features."""

from collections.abc import Sequence

from muster import estimator as v2
from muster.estimator import Head, RunConfig
from muster.feature_column import NumericColumn
from muster_tensorflow.programs.v1.estimator._arguments import OptimizerV1, Path, as_optimizer, as_reduction
from muster_tensorflow.programs.v1.losses import Reduction


class BaselineClassifier(v2.BaselineClassifier):
    """Predict how frequent classes are.

    Source: ``BaselineClassifier`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        super().__init__(
            model_dir=model_dir,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=as_optimizer(optimizer),
            config=config,
            loss_reduction=as_reduction(loss_reduction),
        )


class BaselineEstimator(v2.BaselineEstimator):
    """Predict the same for every example.

    Source: ``BaselineEstimator`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        head: Head,
        model_dir: Path | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        super().__init__(
            head=head,
            model_dir=model_dir,
            optimizer=as_optimizer(optimizer),
            config=config,
        )


class BaselineRegressor(v2.BaselineRegressor):
    """Predict the mean of the labels.

    Source: ``BaselineRegressor`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerV1 = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        super().__init__(
            model_dir=model_dir,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=as_optimizer(optimizer),
            config=config,
            loss_reduction=as_reduction(loss_reduction),
        )
