"""Trace a step as a whole, rewrite it, and compute it."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._arrays import AnyArray
from muster.program.gradients._resolve import resolve
from muster.program.passes._assigned import without_assigned
from muster.program.passes._gradient_markers import has_gradient_markers
from muster.program.passes._jaxprs import contains, needed_equations
from muster.program.passes._loops import with_wide_products
from muster.program.passes._rereads import with_rereads
from muster.program.passes._row_updates import with_row_updates
from muster.program.passes._sparse_gradients import with_sparse_gradients

State = dict[str, jax.Array]
Result = TypeVar("Result")


def compute_traced(
    step: Callable[..., Result], state: State, *args: Any, only_results: bool = False
) -> Result:
    """Compute ``step(state, *args)`` after resolving its gradients and applying the passes.

    Args:
        step: Takes a state and arguments; returns arrays in nested structures.
        state: Its state.
        args: Its arguments.
        only_results: Whether to leave out whatever the results do not need, such as prints and, if they are
            not among the results, gradients.
    """
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(state, *args)
    if only_results:
        eqns, _ = needed_equations(closed.jaxpr.eqns, closed.jaxpr.outvars)
        closed = jex.ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    leaves = jax.tree.leaves((state, args))
    closed = without_assigned(with_rereads(jax.make_jaxpr(resolve(closed))(*leaves)))
    if has_gradient_markers(closed):
        closed = jax.make_jaxpr(with_sparse_gradients(closed))(*leaves)
    if contains(closed, jax.lax.scan_p):
        closed = jax.make_jaxpr(with_wide_products(closed))(*leaves)
    flat = with_row_updates(closed)(*leaves)
    result: Result = jax.tree.unflatten(jax.tree.structure(shapes), flat)
    return result


def shape_of(value: AnyArray) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an array or number."""
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))
