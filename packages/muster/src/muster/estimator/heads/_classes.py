"""Class names, predictions and export signatures that all classification heads share."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from muster.estimator._estimator_spec import (
    DEFAULT_SIGNATURE,
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
)
from muster.estimator._words import Words

LOGITS, LOGISTIC, PROBABILITIES = "logits", "logistic", "probabilities"
CLASS_IDS, CLASSES = "class_ids", "classes"
ALL_CLASS_IDS, ALL_CLASSES = "all_class_ids", "all_classes"


def class_names(vocabulary: tuple[str, ...] | None, classes: int) -> tuple[str, ...]:
    """Return the names of classes: those of a vocabulary, or the numbers from 0."""
    return tuple(map(str, range(classes))) if vocabulary is None else vocabulary


def class_predictions(logits: jax.Array, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is predicted of classes that exclude each other: the first of the largest logits.

    Args:
        logits: Shape (batch, ..., classes).
        names: The names of the classes.

    Returns:
        ``probabilities``, of shape (batch, ..., classes); ``class_ids`` and ``classes``, of shape (batch,
        ..., 1); ``all_class_ids`` and ``all_classes``, of shape (batch, classes).
    """
    ids = jnp.argmax(logits, axis=-1, keepdims=True)
    all_ids = every_class(logits)
    return {
        PROBABILITIES: jax.nn.softmax(logits),
        CLASS_IDS: ids,
        CLASSES: Words(ids, names),
        ALL_CLASS_IDS: all_ids,
        ALL_CLASSES: Words(all_ids, names),
    }


def every_class(logits: jax.Array) -> jax.Array:
    """Return the numbers of all classes for each example: int32 of shape (batch, classes)."""
    classes = logits.shape[-1]
    return jnp.broadcast_to(jnp.arange(classes, dtype="int32"), (logits.shape[0], classes))


def classification_outputs(predictions: Mapping[str, Any], classes: Any) -> dict[str, ExportOutput]:
    """Return the signatures ``classification``, which is the default, and ``predict``.

    Args:
        predictions: What `Head.predictions` returned.
        classes: The names of all classes for each example.
    """
    classification = ClassificationOutput(scores=predictions[PROBABILITIES], classes=classes)
    return {
        DEFAULT_SIGNATURE: classification,
        "classification": classification,
        "predict": PredictOutput(predictions),
    }
