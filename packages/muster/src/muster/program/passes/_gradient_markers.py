"""Mark the sums of gradients over replicas, and optimizers' updates of variables, for a later pass.

What a gradient consists of is known only once gradients are equations. `with_sparse_gradients` puts in the
markers' places what treats the rows of tables that were looked up; elsewhere they compute densely.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias

import jax
from jax.extend import core as jex
from jax.interpreters import ad, mlir

from muster.program._replicas import Replicas
from muster.program.passes._jaxprs import contains

Rule: TypeAlias = Callable[..., Sequence[jax.Array]]
"""Takes a gradient, the values that it updates, and others that it reads; returns the new values. It computes
each element from the same elements of its arguments, or from scalars among them."""


def sum_gradients(replicas: Replicas, gradients: Sequence[jax.Array]) -> list[jax.Array]:
    """Add gradients over the replicas; of tables only the rows that were looked up, if they are few."""
    others = {f.name: getattr(replicas, f.name) for f in fields(replicas) if f.name != "index"}
    among = partial(Replicas, **others)  # the index is a value of the step
    made: list[jax.Array] = sum_p.bind(replicas.index, *gradients, among=among)
    return made


def update_rows(
    rule: Rule, gradient: jax.Array, updated: Sequence[jax.Array], read: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Apply a gradient to the rows that were looked up; to all if it is no gradient of look-ups alone.

    Args:
        rule: Called with the gradient, the values to update and those to read; returns the new values. Where
            an id was looked up several times, it gets the sum of the gradients.
        gradient: The gradient of a table, or of any variable.
        updated: The table and the optimizer's arrays for it, all of one shape.
        read: Arrays of that shape, and scalars.
    """
    made: list[jax.Array] = update_p.bind(gradient, *updated, *read, rule=rule, count=len(updated))
    return made


def _dense_sum(index: jax.Array, *gradients: jax.Array, among: Callable[..., Replicas]) -> list[jax.Array]:
    return among(index=index).sum(gradients)


def dense_update(gradient: jax.Array, *values: jax.Array, rule: Rule, count: int) -> list[jax.Array]:
    made = rule(gradient, *values)
    return [new.astype(old.dtype) for new, old in zip(made, values[:count], strict=True)]


def _marker(name: str, dense: Callable[..., list[jax.Array]]) -> jex.Primitive:
    """Make a primitive that, wherever it is not replaced, computes as if gradients were dense."""
    marker = jex.Primitive(name)
    marker.multiple_results = True
    marker.def_impl(dense)
    mlir.register_lowering(marker, mlir.lower_fun(dense, multiple_results=True))

    def jvp(primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        given = [ad.instantiate_zeros(tangent) for tangent in tangents]
        _, derived = jax.jvp(partial(dense, **params), list(primals), given)
        return marker.bind(*primals, **params), derived

    ad.primitive_jvps[marker] = jvp
    return marker


sum_p = _marker("muster_sum_gradients", _dense_sum)
sum_p.def_abstract_eval(lambda index, *gradients, **_: list(gradients))
update_p = _marker("muster_update_rows", dense_update)
update_p.def_abstract_eval(lambda gradient, *values, count, **_: list(values[:count]))


def has_gradient_markers(closed: jex.Jaxpr | jex.ClosedJaxpr) -> bool:
    """Return whether a jaxpr has markers of `sum_gradients` or `update_rows`."""
    return contains(closed, update_p) or contains(closed, sum_p)
