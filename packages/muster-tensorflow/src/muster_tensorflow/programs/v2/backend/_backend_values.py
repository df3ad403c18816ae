"""More functions of Keras 2's ``backend``: its name, random variables, sparse values, losses by element.

Source: keras/src/backend.py of Keras 2.15.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

from muster import keras
from muster.data import SparseTensor
from muster.program import SparseRows
from muster_tensorflow.library.ops.arrays import _sparse
from muster_tensorflow.library.ops.random._random import normal, uniform


def backend() -> str:
    """Return ``tensorflow``, whose names these are: programs ask before they use them."""
    return "tensorflow"


def random_normal_variable(
    shape: Any, mean: float, scale: float, dtype: str | None = None, name: str | None = None, seed: Any = None
) -> Any:
    """Make a variable that is drawn from a normal distribution."""
    kind = dtype or keras.config.floatx()
    return keras.Variable(normal(shape, mean, scale, kind, seed), dtype=kind, name=name)


def random_uniform_variable(
    shape: Any, low: float, high: float, dtype: str | None = None, name: str | None = None, seed: Any = None
) -> Any:
    """Make a variable that is drawn from a uniform distribution."""
    kind = dtype or keras.config.floatx()
    return keras.Variable(uniform(shape, low, high, kind, seed), dtype=kind, name=name)


def is_sparse(tensor: Any) -> bool:
    """Return whether a value is a sparse tensor."""
    return isinstance(tensor, SparseTensor | SparseRows | BCOO)


def to_dense(tensor: Any) -> Any:
    """Return an array of a sparse tensor, and anything else as it is."""
    return _sparse.to_dense(tensor) if is_sparse(tensor) else tensor


def binary_focal_crossentropy(
    target: Any,
    output: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
) -> Any:
    """Return the binary focal loss of each element."""
    return keras.losses.binary_focal_crossentropy(
        keras.ops.expand_dims(target, -1),
        keras.ops.expand_dims(output, -1),
        apply_class_balancing,
        alpha,
        gamma,
        from_logits,
    )


def categorical_focal_crossentropy(
    target: Any,
    output: Any,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    axis: int = -1,
) -> Any:
    """Return the categorical focal loss of each example."""
    return keras.losses.categorical_focal_crossentropy(target, output, alpha, gamma, from_logits, axis=axis)


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> SparseTensor:
    """Return the first labels of each row as a sparse tensor.

    Args:
        labels: Shape (batch, longest).
        label_lengths: How many count, of shape (batch,).
    """
    if isinstance(labels, jax.core.Tracer) or isinstance(label_lengths, jax.core.Tracer):
        packed, counts = jnp.asarray(labels), jnp.asarray(label_lengths).reshape(-1).astype("int32")
        columns = jnp.broadcast_to(jnp.arange(packed.shape[1], dtype="int32"), packed.shape)
        return SparseRows(columns, packed, counts, packed.shape[1])
    rows = np.asarray(labels)
    there = np.arange(rows.shape[1]) < np.asarray(label_lengths)[:, None]
    return SparseTensor(np.argwhere(there), rows[there], rows.shape)


def reset_uids() -> None:
    """Count automatic names from zero again."""
    keras.src.backend.common.global_state.set_global_attribute("object_name_uids", None)
