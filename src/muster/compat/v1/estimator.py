"""The canned Estimators of ``tf.compat.v1.estimator``: those of `muster.estimator`, as in TensorFlow 1.

They differ in that replicas' and examples' losses are added, in optimizers, which are those of
``tf.compat.v1.train``, and in the learning rate of dense layers, 0.05. Arguments that are not described here
are as for the class of the same name in `muster.estimator`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from muster import estimator as v2
from muster._keras import keras
from muster.compat.v1 import _optimizers
from muster.compat.v1._optimizers import Optimizer
from muster.compat.v1.losses import Reduction
from muster.estimator import Head, RunConfig, WarmStartSettings
from muster.estimator.canned import AtModelsRate, LinearColumns, OptimizerLike
from muster.feature_column import DenseColumn, NumericColumn

OptimizerV1: TypeAlias = str | Optimizer | Callable[[], Optimizer]
"""A name, an optimizer of ``tf.compat.v1.train``, or a function without arguments that returns a new one."""
Path: TypeAlias = str | os.PathLike[str]
Columns: TypeAlias = Iterable[DenseColumn] | DenseColumn
WarmStart: TypeAlias = Path | WarmStartSettings | None
Activation: TypeAlias = Callable[[Any], Any] | str | None

_NAMES = {
    "Adagrad": _optimizers.AdagradOptimizer,
    "Adam": _optimizers.AdamOptimizer,
    "Ftrl": _optimizers.FtrlOptimizer,
    "RMSProp": _optimizers.RMSPropOptimizer,
    "SGD": _optimizers.GradientDescentOptimizer,
}
# The others have the same names.
_REDUCTIONS = {Reduction.SUM: "sum", Reduction.SUM_OVER_BATCH_SIZE: "sum_over_batch_size"}
_DNN_RATE = 0.05


def _optimizer(optimizer: OptimizerV1, rate: float | None = None) -> OptimizerLike:
    """Return an optimizer as the Estimators of `muster.estimator` take it.

    Args:
        optimizer: The argument of a canned Estimator.
        rate: The learning rate of an optimizer that is given by name; None for that of `muster.estimator`.

    Raises:
        ValueError: It is none.

    Source: ``get_optimizer_instance`` (tensorflow_estimator/python/estimator/canned/optimizers.py).
    """
    if isinstance(optimizer, str):
        if optimizer not in _NAMES:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: {tuple(sorted(_NAMES))}"
            )
        kind: Any = _NAMES[optimizer]
        return AtModelsRate(lambda models: kind(models if rate is None else rate).keras_optimizer)
    if isinstance(optimizer, Optimizer):
        return lambda: optimizer.copy().keras_optimizer
    if isinstance(optimizer, keras.optimizers.Optimizer) or not callable(optimizer):
        raise _wrong(optimizer)

    def made() -> keras.optimizers.Optimizer:
        returned = optimizer()
        if not isinstance(returned, Optimizer):
            raise _wrong(returned)
        return returned.keras_optimizer

    return made


def _wrong(argument: object) -> ValueError:
    return ValueError(
        f"The given object is not an Optimizer instance. Given: {argument!r}. Give a name of "
        f"{tuple(sorted(_NAMES))}, an optimizer of tf.compat.v1.train, or a function that returns a new one."
    )


def _reduction(loss_reduction: str) -> str:
    """Return the reduction in the words of `muster.estimator`; one of another name as it is."""
    return _REDUCTIONS.get(loss_reduction, loss_reduction)


def _unpartitioned(partitioner: Any) -> None:
    if partitioner is not None:
        raise ValueError(
            f"partitioner must be None, given: {partitioner!r}. Give one to ParameterServerStrategy, which "
            "divides all variables of a model."
        )


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
            optimizer=_optimizer(optimizer),
            config=config,
            loss_reduction=_reduction(loss_reduction),
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
            optimizer=_optimizer(optimizer),
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
            optimizer=_optimizer(optimizer),
            config=config,
            loss_reduction=_reduction(loss_reduction),
        )


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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=_optimizer(optimizer, _DNN_RATE),
            activation_fn=activation_fn,
            dropout=dropout,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            head=head,
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            optimizer=_optimizer(optimizer, _DNN_RATE),
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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            hidden_units=hidden_units,
            feature_columns=feature_columns,
            model_dir=model_dir,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=_optimizer(optimizer, _DNN_RATE),
            activation_fn=activation_fn,
            dropout=dropout,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
            batch_norm=batch_norm,
        )


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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=_optimizer(dnn_optimizer),
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            head=head,
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=_optimizer(dnn_optimizer),
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
        _unpartitioned(input_layer_partitioner)
        super().__init__(
            model_dir=model_dir,
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=_optimizer(linear_optimizer),
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=_optimizer(dnn_optimizer),
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            label_dimension=label_dimension,
            weight_column=weight_column,
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
        )


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
        _unpartitioned(partitioner)
        super().__init__(
            feature_columns=feature_columns,
            model_dir=model_dir,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=_optimizer(optimizer),
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
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
        _unpartitioned(partitioner)
        super().__init__(
            head=head,
            feature_columns=feature_columns,
            model_dir=model_dir,
            optimizer=_optimizer(optimizer),
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
        _unpartitioned(partitioner)
        super().__init__(
            feature_columns=feature_columns,
            model_dir=model_dir,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=_optimizer(optimizer),
            config=config,
            warm_start_from=warm_start_from,
            loss_reduction=_reduction(loss_reduction),
            sparse_combiner=sparse_combiner,
        )
