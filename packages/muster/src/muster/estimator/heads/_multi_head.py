"""Several heads of one model."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster.estimator._estimator_spec import DEFAULT_SIGNATURE, ExportOutput, PredictOutput
from muster.estimator.heads._head import Head, Metrics, mean
from muster.estimator.heads._labels import require_labels
from muster.feature_column import Features


class MultiHead(Head):
    """Minimizes the weighted sum of the losses of several heads, on one model's logits.

    Logits are a dict by the heads' names, or one array, whose last axis is cut in the heads' order. Labels
    are a dict by the heads' names. Predictions have keys (name of the head, name of the prediction).

    Args:
        heads: Heads with names, and with one loss reduction.
        head_weights: What the losses of the heads are multiplied by; None adds them as they are.

    Raises:
        ValueError: There are no heads, one has no name, they have several loss reductions, or there are more
            or fewer weights than heads.

    Source: ``MultiHead`` (tensorflow_estimator/python/estimator/head/multi_head.py).
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> None:
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise ValueError(
                "heads and head_weights must have the same size. "
                f"Given len(heads): {len(heads)}. Given len(head_weights): {len(head_weights)}."
            )
        for head in heads:
            if head.name is None:
                raise ValueError(f"All given heads must have name specified. Given: {head}")
        if len(reductions := {head.loss_reduction for head in heads}) > 1:
            raise ValueError(
                f"The loss_reduction must be the same for different heads. Given: {sorted(reductions)}"
            )
        super().__init__(
            sum(head.logits_dimension for head in heads),
            heads[0].loss_reduction,
            "_".join(str(head.name) for head in heads),
        )
        self._heads = tuple(heads)
        self._head_weights = tuple(head_weights or [1.0] * len(heads))

    @property
    def feature_keys(self) -> frozenset[str]:
        """The keys of the features that the heads read."""
        return frozenset().union(*(head.feature_keys for head in self._heads))

    def numeric_labels(self, labels: Any) -> Any:
        """Return the labels of each head as numbers, by the heads' names."""
        if not isinstance(labels, Mapping):
            return labels
        heads = {head.name: head for head in self._heads}
        return {
            name: heads[name].numeric_labels(each) if name in heads else each for name, each in labels.items()
        }

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Any]:
        """Return the predictions of the heads, by (name of the head, name of the prediction)."""
        return {
            (head.name, name): values
            for head, own in self._with_logits(logits)
            for name, values in head.predictions(own, keys).items()
        }

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, ExportOutput]:
        """Return the heads' signatures as ``<head>/<signature>``, and all predictions as ``predict``.

        The first head's default is that of the model, and ``<head>`` is that of a head.
        """
        outputs: dict[str, ExportOutput] = {}
        for head in self._heads:
            own = {name: values for (owner, name), values in predictions.items() if owner == head.name}
            for name, output in head.export_outputs(own).items():
                if name == DEFAULT_SIGNATURE:
                    outputs.setdefault(DEFAULT_SIGNATURE, output)
                    outputs[str(head.name)] = output
                else:
                    outputs[f"{head.name}/{name}"] = output
        everything = {f"{owner}/{name}": values for (owner, name), values in predictions.items()}
        return {**outputs, "predict": PredictOutput(everything)}

    def own_metrics(self) -> Metrics:
        """Return the heads' metrics, and the mean loss of each head as ``loss/<head>``."""
        losses: Metrics = {f"loss/{head.name}": mean(f"loss_{head.name}") for head in self._heads}
        return losses | {name: each for head in self._heads for name, each in head.metrics().items()}

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics."""
        for head, own in self._with_logits(logits):
            own_labels = self._labels(labels)[str(head.name)]
            loss = head.loss(own_labels, own, features)
            eval_metrics[f"loss/{head.name}"].update_state(loss)
            head.update_metrics(eval_metrics, features, own, own_labels)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Features | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> jax.Array:
        """Return the weighted sum of the heads' losses, and the regularization losses: shape (), per replica.

        Raises:
            ValueError: Logits or labels of a head are missing, or as for the heads.
        """
        total = jnp.zeros((), "float32")
        pairs = self._with_logits(logits)
        by_head = self._labels(labels)
        for weight, (head, own) in zip(self._head_weights, pairs, strict=True):
            total += weight * head.loss(by_head[str(head.name)], own, features, mode)
        return total + sum(regularization_losses or ())

    def _with_logits(self, logits: Any) -> list[tuple[Head, jax.Array]]:
        """Return each head with its logits."""
        if isinstance(logits, Mapping):
            missing = [head.name for head in self._heads if head.name not in logits]
            if missing:
                raise ValueError(f"logits has missing values for head(s): {missing}")
            return [(head, jnp.asarray(logits[head.name], "float32")) for head in self._heads]
        logits = jnp.asarray(logits, "float32")
        sizes = [head.logits_dimension for head in self._heads]
        if logits.shape[-1] != sum(sizes):
            raise ValueError(
                f"Could not split logits of shape {list(logits.shape)} among the heads with individual "
                f"logits dimensions: {sizes}. The last dimension of the logits tensor should equal "
                f"{sum(sizes)} but is {logits.shape[-1]}."
            )
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes) - 1)]
        return list(zip(self._heads, jnp.split(logits, ends, axis=-1), strict=True))

    def _labels(self, labels: Any) -> Mapping[str, Any]:
        require_labels(labels)
        if not isinstance(labels, Mapping):
            raise ValueError(
                "labels must be a dict, with the labels of each head by its name. Given type: "
                f"{type(labels).__name__}."
            )
        missing = [head.name for head in self._heads if head.name not in labels]
        if missing:
            raise ValueError(f"labels has missing values for head(s): {missing}")
        return labels
