"""Trace a step as a whole, rewrite it, and compute it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster._arrays import AnyArray
from muster.program.gradients._resolve import resolve
from muster.program.passes._gradient_markers import has_gradient_markers
from muster.program.passes._jaxprs import contains
from muster.program.passes._loops import with_wide_products
from muster.program.passes._row_updates import with_row_updates
from muster.program.passes._sparse_gradients import with_sparse_gradients

State = dict[str, jax.Array]


def compute_traced(step: Callable[..., tuple[State, Any]], state: State, *args: Any) -> tuple[State, Any]:
    """Compute ``step(state, *args)`` after resolving its gradients and applying the passes."""
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(state, *args)
    leaves = jax.tree.leaves((state, args))
    closed = jax.make_jaxpr(resolve(closed))(*leaves)
    if has_gradient_markers(closed):
        closed = jax.make_jaxpr(with_sparse_gradients(closed))(*leaves)
    if contains(closed, jax.lax.scan_p):
        closed = jax.make_jaxpr(with_wide_products(closed))(*leaves)
    flat = with_row_updates(closed)(*leaves)
    result: tuple[State, Any] = jax.tree.unflatten(jax.tree.structure(shapes), flat)
    return result


def shape_of(value: AnyArray) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an array or number."""
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))
