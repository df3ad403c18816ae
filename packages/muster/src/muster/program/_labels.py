"""Check class labels and ids, since JAX silently ignores indices out of range."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._keras import keras
from muster.program.variables import current_scope, wrap_in_scopes
from muster.program.variables.keras_internals import backend_functions

_log = logging.getLogger(__name__)

_SHOWN = 20
# How much memory batches may take that are kept until their losses are checked, in bytes.
_KEPT_BYTES = 64 << 20


def keepable(batch: Any, most: int) -> int:
    """Return how many batches like this one to keep until their losses are checked: 1 to ``most``."""
    size = sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(batch))
    return max(1, min(most, _KEPT_BYTES // max(1, size)))


def label_factor(labels: Any, classes: int) -> jax.Array:
    """Return NaN where a traced label is out of range, to multiply logits by, and 1 elsewhere.

    A label that is known is an error at once. What runs a compiled step looks for NaN, and then runs the code
    eagerly on the same batch, which raises that error.

    Args:
        labels: Class indices, of any shape and numeric dtype.
        classes: The number of classes.

    Returns:
        Float32, of the shape of the labels.

    Raises:
        DatasetError: A label is less than 0, or not less than the number of classes.

    Source: tensorflow/core/kernels/sparse_xent_op.cc, ``CheckInvalidLabelIndex``: on CPUs an error, on GPUs
        NaN.
    """
    if not isinstance(labels, jax.core.Tracer):
        advice = "Number the classes from 0, or give the model an output for each of them."
        _require_range("label", labels, classes, advice)
        return jnp.ones(np.shape(labels), "float32")
    if (scope := current_scope()) is not None:
        scope.has_labels = True
    return jnp.where((labels >= 0) & (labels < classes), 1, jnp.float32(jnp.nan))


@contextlib.contextmanager
def only_data_errors() -> Iterator[None]:
    """Let DatasetError leave the block, in which a step that gave NaN is run eagerly, and nothing else.

    What is written to be compiled need not run eagerly.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as exc:
        _log.debug("The step does not run eagerly: %s", exc)


def check_ids(ids: Any, rows: int) -> None:
    """Check ids that are known against the number of rows of an embedding; ids that are traced pass.

    Of these, ones out of range give rows of NaNs, as labels do: see `label_factor`.

    Raises:
        DatasetError: An id is less than 0, or not less than the number of rows.
    """
    if not isinstance(ids, jax.core.Tracer):
        _require_range("id", ids, rows, "Give the embedding more rows, or map such ids to one that it has.")


def _require_range(kind: str, numbers: Any, end: int, advice: str) -> None:
    values = np.asarray(numbers).ravel()
    wrong = values[~((values >= 0) & (values < end))]
    if wrong.size:
        shown = " ".join(f"{value:g}" for value in values[:_SHOWN])
        raise DatasetError(
            f"Received a {kind} value of {wrong[0]:g} which is outside the valid range of [0, {end}). "
            f"{kind.capitalize()} values: {shown}{' ...' if values.size > _SHOWN else ''}. {advice}"
        )


def _checked_labels(original: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Wrap ``sparse_categorical_crossentropy`` of Keras' JAX backend."""

    @functools.wraps(original)
    def crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> jax.Array:
        target, output = jnp.asarray(target), jnp.asarray(output)
        if target.ndim == output.ndim and target.shape[-1] == 1:
            target = target.squeeze(-1)
        if target.shape != tuple(np.delete(output.shape, axis)):
            return original(target, output, from_logits, axis)  # an error
        factor = label_factor(target, output.shape[axis]).astype(output.dtype)
        # Both, since the compiler drops what is multiplied by the zeros of a label that is no class.
        return original(target, output * jnp.expand_dims(factor, axis), from_logits, axis) * factor

    return crossentropy


def _checked_ids(original: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Wrap ``Embedding.call``."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any) -> jax.Array:
        check_ids(inputs, self.input_dim)
        if isinstance(inputs, jax.core.Tracer):
            # Keras counts ids below 0 from the last row, and adds the number of rows to them: this undoes it.
            inputs = jnp.where(inputs < 0, inputs - self.input_dim, inputs)
        return original(self, inputs)

    return call


wrap_in_scopes(backend_functions, "sparse_categorical_crossentropy", _checked_labels)
wrap_in_scopes(keras.layers.Embedding, "call", _checked_ids)
