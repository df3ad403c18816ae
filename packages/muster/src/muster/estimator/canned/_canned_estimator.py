"""The base class of canned Estimators: models that are made of logits and a head."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import jax
import numpy as np

from muster._frontend import frontend
from muster._keras import keras
from muster._ratios import ratio
from muster.data import RaggedTensor, SparseTensor
from muster.estimator._estimator import Estimator
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._run_config import RunConfig
from muster.estimator.heads._class_heads import BinaryClassHead, MultiClassHead
from muster.estimator.heads._head import SUM, Head
from muster.estimator.heads._weighted_head import WeightedHead
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.feature_column import FeatureColumn, Features, NumericColumn, transform_features
from muster.program import get_or_create_global_step, minimize, offer_output, trainable_variables


def classifier_head(
    n_classes: int,
    weight_column: str | NumericColumn | None,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
) -> Head:
    """Return the head of a classifier: one logit for two classes, and one for each class of several.

    Raises:
        ValueError: As for the heads.

    Source: ``binary_or_multi_class_head`` (tensorflow_estimator/python/estimator/head/head_utils.py).
    """
    if n_classes == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


class Logits(Protocol):
    """Computes logits from features; its variables are built at every call.

    Attributes:
        columns: The columns that it reads.
    """

    @property
    def columns(self) -> Sequence[FeatureColumn]: ...

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the logits of a batch: float32 of shape (batch, units), per replica.

        Args:
            features: A batch, per replica.
            units: How many logits an example has.
            mode: The mode of the model_fn.
        """


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a model, with variables and an optimizer of its own.

    Args:
        logits: Computes the part's addend of the logits.
        new_optimizer: Returns a new optimizer for the part's variables.
        for_head: Takes the features of a batch; returns them with others that the head reads.
        scope: TensorFlow's name for a model of this part alone, before the names of its losses.
    """

    logits: Logits
    new_optimizer: Callable[[], keras.Optimizer]
    for_head: Callable[[Features], Features] = lambda features: features
    scope: str = ""


class CannedEstimator(Estimator):
    """An `Estimator` whose logits are a sum of parts, each trained by its own optimizer.

    On the host, columns look up and hash what they read, labels that are text become numbers, and other text
    is left out of batches.

    Args:
        head: Turns logits into predictions, loss and metrics.
        parts: What computes the logits.
        model_dir: As for `Estimator`.
        config: As for `Estimator`.
        warm_start_from: As for `Estimator`.
    """

    def __init__(
        self,
        head: Head,
        parts: Sequence[Part],
        model_dir: str | os.PathLike[str] | None,
        config: RunConfig | None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        notice = frontend().before_canned
        if notice is not None:
            notice(self)
        super().__init__(_model_fn(head, parts), model_dir, config, warm_start_from=warm_start_from)

        columns = tuple(column for part in parts for column in part.logits.columns)

        def prepare(features: Any, labels: Any) -> tuple[Any, Any]:
            weights = {key: _array(features[key]) for key in head.feature_keys if key in features}
            numbers = _numbers(features, columns) | weights
            return numbers, None if labels is None else head.numeric_labels(labels)

        self._setup = dataclasses.replace(
            self._setup, prepare=prepare, numeric_labels=head.numeric_labels, columns=columns
        )


def _numbers(features: Any, columns: Sequence[FeatureColumn]) -> dict[str, Any]:
    """Return what the host makes of columns, and the features that are numbers.

    Without columns, all that a model needs of the features is how many examples there are: an array says so.

    Raises:
        ValueError: The features are no dict, are none, or do not fit the columns.
    """
    if not isinstance(features, Mapping) or not features:
        raise ValueError(
            f"features should be a dictionary of `Tensor`s. Given type: {type(features)}. Name them in "
            "the input_fn by the columns' keys."
        )
    if columns:
        return transform_features(features, columns)
    key, value = next(iter(features.items()))
    shape = value.shape if isinstance(value, SparseTensor) else np.shape(value)
    return {key: np.zeros(shape[:1], np.float32)}


def _array(feature: Any) -> Any:
    """Return a feature of the head as an array; what is not there counts as 0."""
    if isinstance(feature, RaggedTensor):
        return feature.to_tensor()
    return feature.to_dense() if isinstance(feature, SparseTensor) else feature


def _model_fn(head: Head, parts: Sequence[Part]) -> Callable[..., EstimatorSpec]:
    """Return the model_fn of a model whose logits are a sum of parts.

    Source: ``_dnn_linear_combined_model_fn_v2``
    (tensorflow_estimator/python/estimator/canned/dnn_linear_combined.py).
    """
    reduction: Literal["mean", "sum"] = "sum" if head.loss_reduction == SUM else "mean"

    def model_fn(features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
        addends, variables = [], []
        for part in parts:
            before = len(trainable_variables())
            addends.append(part.logits(features, head.logits_dimension, mode))
            variables.append(trainable_variables()[before:])
            features = part.for_head(features)

        def train(loss: jax.Array) -> Any:
            # Only the last counts: a step of the model is one of each part.
            steps = [None] * (len(parts) - 1) + [get_or_create_global_step()]
            train_op = None
            for part, own, step in zip(parts, variables, steps, strict=True):
                train_op = minimize(part.new_optimizer(), loss, step, own, loss_reduction=reduction)
            return train_op

        logits = sum(addends[1:], addends[0])
        spec = head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train)
        if spec.loss is not None:
            _offer_losses(head, features, logits, spec.loss, parts[0].scope if len(parts) == 1 else "")
        return spec

    return model_fn


def _offer_losses(head: Head, features: Any, logits: jax.Array, loss: jax.Array, scope: str) -> None:
    """Offer hooks the loss by its names in the graphs of TensorFlow 1's Estimators."""
    name = "Sum" if head.loss_reduction == SUM else "value"
    offer_output(f"{scope}head/weighted_loss/{name}", loss)
    if head.loss_reduction == SUM and isinstance(head, WeightedHead):
        weights = head.weights(features, logits)
        total = weights.sum() if weights.ndim else weights * math.prod(logits.shape[:-1])
        offer_output(f"{scope}head/truediv", ratio(loss, total))
