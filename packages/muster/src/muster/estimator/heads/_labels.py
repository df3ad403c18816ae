"""Labels as heads take them: classes as numbers in range, and shapes like those of logits."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster.data import Placeholder
from muster.estimator._words import WordNumbers
from muster.program import HostValue, label_factor

_SHOWN = 5


def labels_like_logits(labels: Any, logits: jax.Array, dimension: int | None = None) -> Any:
    """Return labels in the shape of logits; labels without the last axis get one.

    Args:
        labels: Shape (batch, ..., dimension), or (batch, ...) if the dimension is 1.
        logits: Shape (batch, ..., logits_dimension).
        dimension: How many labels an example has; None for as many as logits.

    Raises:
        TypeError: The labels are more than one array.
        ValueError: There are no labels, or they have another shape.

    Source: ``check_dense_labels_match_logits_and_reshape``
    (tensorflow_estimator/python/estimator/head/base_head.py).
    """
    require_labels(labels)
    if isinstance(labels, Mapping | tuple | list):
        raise TypeError(
            f"The labels must be one array, given a {type(labels).__name__}: choose one in the input_fn."
        )
    labels = labels if isinstance(labels, jax.Array) else np.asarray(labels)
    if labels.ndim == logits.ndim - 1:
        labels = labels[..., None]
    wanted = logits.shape[-1] if dimension is None else dimension
    found = labels.shape[-1] if labels.ndim else 0
    if found != wanted:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={wanted}.  Received {found}. "
            "Suggested Fix: If your classifier expects one-hot encoding label, check your n_classes argument "
            "to the estimator and/or the shape of your label. Otherwise, check the shape of your label."
        )
    if labels.shape != (*logits.shape[:-1], wanted):
        raise ValueError(
            f"labels shape must be [D0, D1, ... DN, {wanted}]. Suggested Fix: check your n_classes argument "
            "to the head and/or the shape of your label., "
            f"expected_labels_shape: {(*logits.shape[:-1], wanted)}. labels_shape: {labels.shape}."
        )
    return labels


def require_labels(labels: Any) -> None:
    """Raise ValueError if there are no labels."""
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your "
            "data contains your label feature. Check that your input_fn properly parses and returns labels."
        )


def checked_vocabulary(label_vocabulary: Any) -> tuple[str, ...] | None:
    """Return the names of classes as text; None stays None.

    Raises:
        ValueError: It is no list or tuple, or a name occurs twice.
    """
    if label_vocabulary is None:
        return None
    if not isinstance(label_vocabulary, list | tuple):
        raise ValueError(
            f"label_vocabulary should be a list or a tuple. Given type: {type(label_vocabulary)}"
        )
    names = tuple(each.decode() if isinstance(each, bytes) else str(each) for each in label_vocabulary)
    if len(set(names)) < len(names):
        raise ValueError(f"label_vocabulary has a name twice: {list(names)}. Give each class one name.")
    return names


def is_text(labels: Any) -> bool:
    """Return whether labels are text, or Python objects, as text of several lengths may be."""
    return _dtype(labels).kind in "USOT"


def _dtype(labels: Any) -> np.dtype[Any]:
    known = isinstance(labels, jax.Array | Placeholder)
    dtype: np.dtype[Any] = labels.dtype if known else np.asarray(labels).dtype
    return dtype


def class_ids(labels: Any, vocabulary: Sequence[str] | None) -> Any:
    """Return the numbers of classes, on the host; without a vocabulary, the labels.

    Args:
        labels: Text of any shape, ``str`` or UTF-8, if there is a vocabulary; else numbers. Or a placeholder
            for one of them.
        vocabulary: The names of the classes, or None.

    Returns:
        int32 in the shape of the labels, or the labels; of a placeholder for text one for numbers.

    Raises:
        DatasetError: A label is not in the vocabulary.
        ValueError: There is a vocabulary, and the labels are numbers; or the other way round.
    """
    if isinstance(labels, HostValue):  # of a model_fn, whose batch has text
        return labels.source.compute(class_ids, (labels, vocabulary), {})
    text = is_text(labels)
    if vocabulary is None:
        if text:
            raise ValueError(
                f"Labels dtype should be integer. Instead got {_dtype(labels)}. Give the names of "
                "the classes as label_vocabulary, in the order of their numbers."
            )
        return labels
    if not text:
        raise ValueError(
            f"Labels dtype should be string if there is a vocabulary. Instead got {_dtype(labels)}. Leave "
            "out label_vocabulary, or give the names of the classes as labels."
        )
    if isinstance(labels, Placeholder):
        return WordNumbers(labels, tuple(vocabulary))
    names = np.asarray(labels)
    numbers = {name: number for number, name in enumerate(vocabulary)}
    found = [
        numbers.get(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name), -1)
        for name in names.ravel().tolist()
    ]
    if -1 in found:
        unknown = sorted(
            {str(name) for name, id in zip(names.ravel().tolist(), found, strict=True) if id < 0}
        )
        raise DatasetError(
            f"Labels must be >= 0: they number the names in label_vocabulary, {list(vocabulary)}, which "
            f"lacks {', '.join(map(repr, unknown[:_SHOWN]))}."
        )
    return np.array(found, np.int32).reshape(names.shape)


def range_factor(labels: Any, classes: int, message: str | None = None) -> jax.Array:
    """Return NaN where a traced label is no class, to multiply losses by, and 1 elsewhere.

    A label that is known is an error at once, to which NaN leads: see `muster.program.label_factor`.

    Args:
        labels: Numbers of classes.
        classes: How many there are.
        message: What to say of others; None says on which side they are out of range.

    Raises:
        DatasetError: A known label is negative, or more than the number of the last class.
    """
    if not isinstance(labels, jax.core.Tracer):
        known = np.asarray(labels)
        wrong = known[~((known >= 0) & (known <= classes - 1))]
        if wrong.size:
            side = "Labels must be >= 0" if wrong[0] < 0 else f"Labels must be <= {classes} - 1"
            given = ", ".join(f"{value:g}" for value in wrong[:_SHOWN])
            raise DatasetError(f"{message or side}. Given: {given}.")
    labels = jnp.asarray(labels)
    if jnp.issubdtype(labels.dtype, jnp.floating):
        labels = jnp.ceil(labels)  # 1.5 is none of two classes
    return label_factor(labels, classes)
