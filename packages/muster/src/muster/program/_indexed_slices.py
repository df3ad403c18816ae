"""Rows of an array, by their indices."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from muster._arrays import AnyArray


class IndexedSlices(NamedTuple):
    """Rows of an array, by their indices: a gradient of a table, or what ``scatter_add`` adds to a variable.

    Attributes:
        values: The rows, of shape (n, ...).
        indices: The place of each row in the array, of shape (n,).
        dense_shape: The array's shape, if it is known.

    Source: tensorflow/python/framework/indexed_slices.py, ``IndexedSlices``.
    """

    values: AnyArray
    indices: AnyArray
    dense_shape: tuple[int, ...] | None = None


def dense_gradient(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Return the gradient of a variable of some shape as an array, if it is `IndexedSlices`.

    Raises:
        ValueError: The slices are not rows of such a variable.
    """
    if not isinstance(gradient, IndexedSlices):
        return gradient
    values, indices = jnp.asarray(gradient.values), jnp.asarray(gradient.indices, jnp.int32)
    if indices.ndim != 1 or values.shape != (indices.size, *shape[1:]):
        if indices.size or values.size:
            raise ValueError(
                f"IndexedSlices of indices of shape {indices.shape} and values of shape {values.shape} are "
                f"no gradient of a variable of shape {tuple(shape)}: n indices need values of shape "
                f"{('n', *shape[1:])}."
            )
        values, indices = values.reshape(0, *shape[1:]), indices.reshape(0)
    # By this primitive even if there are no rows, so that an update knows that none were looked up.
    rows = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, values.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    zeros = jnp.zeros(shape, values.dtype)
    return lax.scatter_add(zeros, indices[:, None], values, rows, mode="drop")
