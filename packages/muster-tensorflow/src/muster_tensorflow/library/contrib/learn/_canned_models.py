"""The canned Estimators of ``tf.contrib.learn``, on those of ``tf.compat.v1.estimator``.

Losses are means over a batch's examples. An ``optimizer`` is a name or one of ``tf.train``, and None the
model's own; ``gradient_clip_norm`` is the largest norm of all gradients of a part of the model together;
``label_keys`` are labels that are text, in the order of their classes. Of the arguments of 1.15,
``enable_centered_bias``, ``feature_engineering_fn`` and ``embedding_lr_multipliers`` are refused, and those
that divide variables have no effect. Others are as for the class of the same name in
``tf.compat.v1.estimator``.

Source: tensorflow/contrib/learn/python/learn/estimators/ of TensorFlow 1.15: dnn.py, linear.py and
dnn_linear_combined.py.
"""

import math
from collections.abc import Sequence
from typing import Any

from muster.estimator import RunConfig
from muster_tensorflow.library.contrib.learn._canned import Classifier, Regressor, clipped, require_none
from muster_tensorflow.programs.v1 import estimator as v1
from muster_tensorflow.programs.v1.estimator._arguments import DNN_RATE
from muster_tensorflow.programs.v1.losses import Reduction

Columns = Sequence[Any]


class DNNClassifier(Classifier):
    """Predicts classes by dense layers."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = "relu",
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
        embedding_lr_multipliers: None = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Sequence[str] | None = None,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn, embedding_lr_multipliers)
        canned = v1.DNNClassifier(
            hidden_units,
            feature_columns,
            model_dir,
            n_classes,
            weight_column_name,
            label_keys,
            clipped(optimizer, gradient_clip_norm, "Adagrad", DNN_RATE),
            activation_fn,
            dropout,
            config=config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned, label_keys)


class DNNRegressor(Regressor):
    """Predicts numbers by dense layers."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: str | None = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = "relu",
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
        label_dimension: int = 1,
        embedding_lr_multipliers: None = None,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn, embedding_lr_multipliers)
        canned = v1.DNNRegressor(
            hidden_units,
            feature_columns,
            model_dir,
            label_dimension,
            weight_column_name,
            clipped(optimizer, gradient_clip_norm, "Adagrad", DNN_RATE),
            activation_fn,
            dropout,
            config=config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned)


class LinearClassifier(Classifier):
    """Predicts classes by a linear model."""

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        _joint_weight: bool = False,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
        label_keys: Sequence[str] | None = None,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn)
        canned = v1.LinearClassifier(
            feature_columns,
            model_dir,
            n_classes,
            weight_column_name,
            label_keys,
            clipped(optimizer, gradient_clip_norm, "Ftrl", _rate(feature_columns)),
            config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned, label_keys)


class LinearRegressor(Regressor):
    """Predicts numbers by a linear model."""

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: str | None = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        _joint_weights: bool = False,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn)
        canned = v1.LinearRegressor(
            feature_columns,
            model_dir,
            label_dimension,
            weight_column_name,
            clipped(optimizer, gradient_clip_norm, "Ftrl", _rate(feature_columns)),
            config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned)


class DNNLinearCombinedClassifier(Classifier):
    """Predicts classes by a linear model and dense layers; the global step counts their steps as one."""

    def __init__(
        self,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        linear_feature_columns: Columns | None = None,
        linear_optimizer: Any = None,
        joint_linear_weights: bool = False,
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
        embedding_lr_multipliers: None = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Sequence[str] | None = None,
        fix_global_step_increment_bug: bool = True,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn, embedding_lr_multipliers)
        canned = v1.DNNLinearCombinedClassifier(
            model_dir,
            linear_feature_columns,
            clipped(linear_optimizer, gradient_clip_norm, "Ftrl", _rate(linear_feature_columns)),
            dnn_feature_columns,
            clipped(dnn_optimizer, gradient_clip_norm, "Adagrad", DNN_RATE),
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            n_classes,
            weight_column_name,
            label_keys,
            config=config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned, label_keys)


class DNNLinearCombinedRegressor(Regressor):
    """Predicts numbers by a linear model and dense layers; the global step counts their steps as one."""

    def __init__(
        self,
        model_dir: str | None = None,
        weight_column_name: str | None = None,
        linear_feature_columns: Columns | None = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        config: RunConfig | None = None,
        feature_engineering_fn: None = None,
        embedding_lr_multipliers: None = None,
        input_layer_min_slice_size: int | None = None,
        fix_global_step_increment_bug: bool = True,
    ) -> None:
        require_none(enable_centered_bias, feature_engineering_fn, embedding_lr_multipliers)
        canned = v1.DNNLinearCombinedRegressor(
            model_dir,
            linear_feature_columns,
            clipped(linear_optimizer, gradient_clip_norm, "Ftrl", _rate(linear_feature_columns)),
            dnn_feature_columns,
            clipped(dnn_optimizer, gradient_clip_norm, "Adagrad", DNN_RATE),
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            label_dimension,
            weight_column_name,
            config=config,
            loss_reduction=Reduction.SUM_OVER_BATCH_SIZE,
        )
        super().__init__(canned)


def _rate(columns: Columns | None) -> float:
    """Return the learning rate of a linear model."""
    return min(0.2, 1 / math.sqrt(len(columns or [None])))
