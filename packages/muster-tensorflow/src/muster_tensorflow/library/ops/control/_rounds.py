"""Find the trip counts of traced loops: JAX differentiates loops whose count of iterations is known."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.extend import function_of, needed_equations
from muster_tensorflow.library.ops.control._ways import aside

# A loop that goes round more often is left to the program, since gradients keep the values of all rounds.
_MOST_ROUNDS = 10_000

_LOOPS: ContextVar[list[str] | None] = ContextVar("muster_loops", default=None)


def rounds_of(test: Callable[[Any], Any], step: Callable[[Any], Any], first: Any) -> int | None:
    """Return how often a loop goes round; None if the step's values decide that, or change their types.

    Args:
        test: Takes the values, and returns whether there is another round.
        step: Takes the values, and returns the next ones.
        first: The first ones, of which those that are no tracers are known.
    """
    structure = _structure(first)
    leaves = jax.tree.leaves(first)
    shapes = [
        jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in leaves
    ]

    def flat(*values: Any) -> list[Any]:
        made = step(jax.tree.unflatten(structure, values))
        is_alike = structure == _structure(made)
        return [jnp.asarray(each) for each in jax.tree.leaves(made)] if is_alike else []

    with aside():
        tested = jax.make_jaxpr(lambda *values: jnp.asarray(test(jax.tree.unflatten(structure, values))))(
            *shapes
        )
        stepped = jax.make_jaxpr(flat)(*shapes)
    if [(each.shape, each.dtype) for each in stepped.out_avals] != [(s.shape, s.dtype) for s in shapes]:
        return None
    places = {var: place for place, var in enumerate(stepped.jaxpr.invars)}
    of_test = {var: place for place, var in enumerate(tested.jaxpr.invars)}
    test_eqns, start = needed_equations(tested.jaxpr.eqns, tested.jaxpr.outvars)
    counted: set[int] = set()
    found, more = {of_test.get(var, -1) for var in start}, {-1}
    step_eqns: Any = []
    while more:
        counted |= found
        targets = [stepped.jaxpr.outvars[place] for place in counted if place >= 0]
        step_eqns, start = needed_equations(stepped.jaxpr.eqns, targets)
        found = {places.get(var, -1) for var in start}
        more = found - counted
    if -1 in counted or any(isinstance(leaves[place], jax.core.Tracer) for place in counted):
        return None
    if any(eqn.effects for eqn in (*test_eqns, *step_eqns)):
        return None
    order = sorted(counted)
    goes_on = function_of(test_eqns, [tested.jaxpr.invars[place] for place in order], tested.jaxpr.outvars)
    follow = function_of(
        step_eqns,
        [stepped.jaxpr.invars[place] for place in order],
        [stepped.jaxpr.outvars[place] for place in order],
    )
    with jax.ensure_compile_time_eval():
        count, _ = jax.lax.while_loop(
            lambda state: jnp.logical_and(state[0] <= _MOST_ROUNDS, jnp.reshape(goes_on(*state[1])[0], ())),
            lambda state: (state[0] + 1, follow(*state[1])),
            (0, [jnp.asarray(leaves[place], shapes[place].dtype) for place in order]),
        )
    return int(count) if count <= _MOST_ROUNDS else None


@contextmanager
def noting_loops() -> Iterator[list[str]]:
    """Note in a ``with`` block the loops that values of the step end; one in another has what that has."""
    if (noted := _LOOPS.get()) is not None:
        yield noted
        return
    made: list[str] = []
    token = _LOOPS.set(made)
    try:
        yield made
    finally:
        _LOOPS.reset(token)


def note_loop(name: str) -> None:
    """Note such a loop."""
    if (noted := _LOOPS.get()) is not None:
        noted.append(name)


def _structure(values: Any) -> Any:
    return jax.tree.structure(values)
