"""A head that turns one for examples into one for the steps of sequences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import Placeholder, RaggedTensor, SparseTensor
from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput, ModeKeys
from muster.estimator.heads._head import MEAN, Head, Metrics
from muster.estimator.heads._labels import is_text, require_labels
from muster.estimator.heads._multi_head import MultiHead
from muster.estimator.heads._weighted_head import WeightedHead
from muster.feature_column import Features, numeric_column

_STEP_WEIGHTS = "step weights"


class SequentialHeadWrapper(Head):
    """Another head for each step of sequences: steps beyond a sequence's end count in no loss and no metric.

    Logits have the shape (batch, steps, logits_dimension), labels (batch, steps) or (batch, steps, ...), and
    predictions come for each step, with the mask. Labels may be sparse, or have fewer steps than the logits.
    If they are text, empty text is the label of no step.

    Args:
        static_head: The head for a step; none with several labels.
        sequence_length_mask: The key of a feature that says which steps there are: of shape (batch, steps).
        feature_columns: The key or keys of features with a value for each step that the other head reads,
            such as its weights.

    Raises:
        TypeError: A key is not text.
        ValueError: The head is a `MultiHead`, or has no loss for each example.

    Source: ``SequentialHeadWrapper`` (tensorflow_estimator/python/estimator/head/sequential_head.py).
    """

    def __init__(
        self,
        static_head: Head,
        sequence_length_mask: str = "sequence_length_mask",
        feature_columns: str | Iterable[str] | None = None,
    ) -> None:
        if not isinstance(sequence_length_mask, str):
            raise TypeError(
                f"`sequence_mask` column must be a string. Given type: {type(sequence_length_mask)}."
            )
        if isinstance(static_head, MultiHead):
            raise ValueError("`MultiHead` is not supported with `SequentialHeadWrapper`.")
        if not isinstance(static_head, WeightedHead):
            raise ValueError(f"The head must be one of examples with a loss each. Given: {static_head!r}.")
        name = static_head.name and f"{static_head.name}_sequential"
        super().__init__(static_head.logits_dimension, static_head.loss_reduction, name)
        self._static_head, self._mask_key = static_head, sequence_length_mask
        self._step_keys = _keys(feature_columns)

    @property
    def static_head(self) -> Head:
        """The head for a step."""
        return self._static_head

    @property
    def input_sequence_mask_key(self) -> str:
        """The key of the feature that says which steps there are."""
        return self._mask_key

    @property
    def feature_keys(self) -> frozenset[str]:
        """The keys of the features that the head reads: the mask, and values for each step."""
        return frozenset({self._mask_key, *self._step_keys})

    def key(self, name: str) -> str:
        """Return the name of one of the other head's metrics."""
        return self._static_head.key(name)

    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[Any, Any]:
        """Return those of the other head, for each step."""
        return self._static_head.predictions(logits, keys)

    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures of the other head."""
        return self._static_head.export_outputs(predictions)

    def own_metrics(self) -> Metrics:
        """Return those of the other head."""
        return self._static_head.own_metrics()

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add the steps of a batch to the metrics."""
        head, labels, logits, features, _ = self._of_steps(labels, logits, features)
        head.update_own_metrics(eval_metrics, features, logits, labels)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Features | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> jax.Array:
        """Return the sum of the steps' losses, each times its weight, or its mean; see `Head.loss`."""
        head, labels, logits, features, there = self._of_steps(
            labels, logits, {} if features is None else features
        )
        loss = head.loss(labels, logits, features)
        if self.loss_reduction == MEAN:
            loss = loss * there.size / jnp.maximum(there.sum(), 1)
        return loss + sum(regularization_losses or ())

    def numeric_labels(self, labels: Any) -> Any:
        """Return the labels of all steps as an array of numbers, as the other head makes them on the host."""
        if isinstance(labels, RaggedTensor):
            labels = labels.to_sparse()
        if isinstance(labels, SparseTensor):
            numbers = np.asarray(self._static_head.numeric_labels(labels.plain_values))
            return SparseTensor(labels.plain_indices, numbers, labels.shape).to_dense()
        if not is_text(labels):
            return self._static_head.numeric_labels(labels)
        if isinstance(labels, Placeholder):
            raise ValueError(
                "Labels of steps that are text cannot be those of an exported model: give it their numbers, "
                "and -1 where a sequence has ended."
            )
        names = np.asarray(labels)
        there = np.array([name not in ("", b"") for name in names.ravel().tolist()])
        numbers = np.full(names.size, -1, np.int32)
        numbers[there] = self._static_head.numeric_labels(names.ravel()[there])
        return numbers.reshape(names.shape)

    def create_estimator_spec(
        self, features: Features, mode: str, logits: Any, *args: Any, **kwargs: Any
    ) -> EstimatorSpec:
        """Return the EstimatorSpec of a model_fn, as `Head` does; predictions have the mask, too."""
        spec = super().create_estimator_spec(features, mode, logits, *args, **kwargs)
        if spec.mode != ModeKeys.PREDICT:
            return spec
        there = _flat(features[self._mask_key], logits, "mask").reshape(logits.shape[:2])
        return spec._replace(predictions={**spec.predictions, self._mask_key: there})

    def _of_steps(
        self, labels: Any, logits: Any, features: Features
    ) -> tuple[WeightedHead, jax.Array, jax.Array, Features, jax.Array]:
        """Return the other head, and labels, logits and features with all steps as its examples.

        Returns:
            The head, which reads weights that are 0 where there is no step; labels of shape (batch * steps,
            ...), logits, features; and where there is a step, float32 of shape (batch * steps, 1).

        Raises:
            ValueError: There is no mask, no labels or a feature too few, or they do not fit the logits.
        """
        require_labels(labels)
        logits = self.checked_logits(logits)
        if logits.ndim != 3:
            raise ValueError(
                f"The logits must have a row for each step, and have the shape {logits.shape}. Let the model "
                "return sequences."
            )
        for key in (self._mask_key, *self._step_keys):
            if key not in features:
                raise ValueError(
                    f"The provided features should include `{key}`, which the head of the sequences reads. "
                    f"Found keys: {sorted(features)}."
                )
        there = _flat(features[self._mask_key], logits, "mask").astype("float32")[:, None]
        logits_of_steps = jnp.where(there > 0, logits.reshape(-1, logits.shape[-1]), 0)
        labels = _flat(labels, logits, "labels")
        labels = jnp.where(there.reshape(-1, *[1] * (labels.ndim - 1)) > 0, labels, 0)
        of_steps = {key: _flat(features[key], logits, key) for key in self._step_keys}
        weights = self._static_head.weights(of_steps, logits_of_steps) * there
        of_steps[_STEP_WEIGHTS] = weights
        head = self._static_head.weighted_by(numeric_column(_STEP_WEIGHTS, weights.shape[-1]))
        return head, labels, logits_of_steps, of_steps, there


def _keys(feature_columns: str | Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(feature_columns, str):
        return (feature_columns,)
    if not isinstance(feature_columns, Iterable | None):
        raise TypeError(
            "`feature_columns` must be either a string or an iterable of strings got "
            f"{type(feature_columns)} instead."
        )
    keys = tuple(feature_columns or ())
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"Column must a string. Given type: {type(key)}.")
    return keys


def _flat(values: Any, logits: jax.Array, what: str) -> jax.Array:
    """Return values of steps as those of examples, filled up with zeros to the steps of the logits.

    Args:
        values: Shape (batch, steps or fewer, ...).
        logits: Shape (batch, steps, logits_dimension).
        what: What they are, for an error.

    Returns:
        Shape (batch * steps, ...).

    Raises:
        ValueError: They have another batch, or more steps.
    """
    values = jnp.asarray(values)
    batch, steps = logits.shape[:2]
    if values.ndim < 2 or values.shape[0] != batch or values.shape[1] > steps:
        raise ValueError(
            f"The {what} of sequences must have the shape (batch, steps, ...), here ({batch}, {steps}, ...), "
            f"given {values.shape}."
        )
    fill = [(0, 0), (0, steps - values.shape[1])] + [(0, 0)] * (values.ndim - 2)
    return jnp.pad(values, fill).reshape(batch * steps, *values.shape[2:])
