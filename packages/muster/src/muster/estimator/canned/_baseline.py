"""Canned models that ignore the features: `BaselineClassifier`, `BaselineEstimator`, `BaselineRegressor`."""

import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator, Part, classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.estimator.heads._regression_head import RegressionHead
from muster.feature_column import FeatureColumn, Features, NumericColumn

_LEARNING_RATE = 0.3


class BaselineLogits:
    """The same logits for every example: the variable ``baseline/bias``, of shape (units,), from zero on.

    Source: ``_baseline_model_fn_builder_v2`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    columns: tuple[FeatureColumn, ...] = ()

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the logits of each example: float32 of shape (batch, units)."""
        with keras.name_scope("baseline"):
            bias = keras.Variable("zeros", (units,), "float32", name="bias").value
        rows = jax.tree.leaves(features)[0].shape[0]
        return jnp.broadcast_to(bias, (rows, units))


def baseline_part(optimizer: OptimizerLike) -> Part:
    """Return such a model as a part of a canned one; an optimizer by name has the learning rate 0.3.

    Raises:
        ValueError: There is no such optimizer.
    """
    return Part(BaselineLogits(), optimizer_maker(optimizer, _LEARNING_RATE))


class BaselineEstimator(CannedEstimator):
    """An `Estimator` that predicts the same for every example: the best that there is without features.

    Args:
        head: Turns logits into predictions, loss and metrics.
        model_dir: As for `Estimator`.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, with the learning rate
            0.3; a Keras optimizer, which is copied from its configuration; or a function without arguments
            that returns a new one.
        config: As for `Estimator`.

    Raises:
        ValueError: There is no such optimizer.

    Source: ``BaselineEstimatorV2`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        super().__init__(head, [baseline_part(optimizer)], model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """An `Estimator` that predicts how frequent classes are.

    Args:
        model_dir: As for `Estimator`.
        n_classes: As for `LinearClassifier`, and so the following.
        weight_column: The key or numeric column of the examples' weights.
        label_vocabulary: The names of the classes, if labels are text.
        optimizer: As for `BaselineEstimator`.
        config: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: An argument is out of range.

    Source: ``BaselineClassifierV2`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = "sum_over_batch_size",
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """An `Estimator` that predicts the mean of the labels.

    Args:
        model_dir: As for `Estimator`.
        label_dimension: As for `LinearRegressor`, and so the following.
        weight_column: The key or numeric column of the weights of examples or of single numbers.
        optimizer: As for `BaselineEstimator`.
        config: As for `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: An argument is out of range.

    Source: ``BaselineRegressorV2`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = "sum_over_batch_size",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)
