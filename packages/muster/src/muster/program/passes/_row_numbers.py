"""Map the 64-bit ids that a step looks up to consecutive row numbers, on the host.

JAX computes with 32 bits, and knows no tables of arbitrary ids. So a step asks for the number of each id: its
place among the different ids of a batch. `with_given_numbers` makes the numbers inputs of the step, and a
program that computes the ids.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._errors import TraceError
from muster.program.passes._jaxprs import (
    Equation,
    body_contains,
    function_of,
    needed_equations,
    type_of,
    with_inlined_jits,
)
from muster.program.passes._served import marking

row_numbers_p = jex.Primitive("muster_row_numbers")
row_numbers_p.def_abstract_eval(lambda ids, *, table: jax.core.ShapedArray(ids.shape[:1], jnp.dtype("int32")))


def row_numbers(ids: jax.Array, table: str) -> jax.Array:
    """Return the numbers of ids, which `with_given_numbers` makes an input of the step.

    Args:
        ids: uint32 of shape (n, 2): the lower and the upper half of each id; all bits set ask for no row.
        table: The path of the table's variable: the ids of one table are numbered together.

    Returns:
        int32 of shape (n,); `NO_ROW` for no row.
    """
    numbers: jax.Array = row_numbers_p.bind(ids, table=table)
    return numbers


@dataclasses.dataclass(frozen=True)
class NumberedStep:
    """A step that is given the numbers of its ids.

    Attributes:
        function: As the step; its batch is the list of arrays of the step's, and then those of ``numbers``.
        numbers: Table -> the shape of the numbers of its ids: int32 of shape (n,).
        ids: ``(local, batch) -> ids`` of each table, uint32 of shape (n, 2).
    """

    function: Callable[..., Any]
    numbers: dict[str, jax.ShapeDtypeStruct]
    ids: Callable[[Sequence[jax.Array], Any], dict[str, jax.Array]]


def with_given_numbers(
    function: Callable[..., Any],
    state: Mapping[str, Any],
    batch: Sequence[Any],
    local: Collection[str],
) -> NumberedStep:
    """Make the numbers of ids inputs of a step.

    Args:
        function: As of `split_at_pushes`.
        state: Likewise.
        batch: A list of arrays or ``jax.ShapeDtypeStruct`` s.
        local: As of `split_at_pushes`.

    Raises:
        TraceError: Ids depend on variables, or are looked up in a loop or a branch.
    """
    with marking():
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(state, batch)
    closed = with_inlined_jits(closed, row_numbers_p)
    jaxpr = closed.jaxpr
    structure = jax.tree.structure(shapes)
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    for eqn in jaxpr.eqns:
        if body_contains(eqn, row_numbers_p):
            raise TraceError(
                f"A HashEmbedding is called inside of a {eqn.primitive.name}, where workers cannot find out "
                "its ids before. Call it outside of loops and branches."
            )
    asking = [eqn for eqn in jaxpr.eqns if eqn.primitive is row_numbers_p]
    others = [eqn for eqn in jaxpr.eqns if eqn.primitive is not row_numbers_p]
    of_table: dict[str, list[Equation]] = {}
    for eqn in asking:
        of_table.setdefault(eqn.params["table"], []).append(eqn)
    ordered = list(itertools.chain(*of_table.values()))
    sizes = {path: [type_of(eqn.outvars[0]).shape[0] for eqn in eqns] for path, eqns in of_table.items()}

    by_path = dict(zip(sorted(state), jaxpr.invars, strict=False))
    own = [*(by_path[path] for path in sorted(local)), *jaxpr.invars[len(by_path) :]]
    eqns, start = needed_equations(others, [eqn.invars[0] for eqn in ordered])
    if read := [path for path, v in by_path.items() if v in start and path not in local]:
        raise TraceError(
            f"The ids that a HashEmbedding looks up depend on {', '.join(read)}, which parameter servers "
            "hold. Look up ids that the batch has."
        )
    asked = function_of(eqns, own, [eqn.invars[0] for eqn in ordered], constants)
    given = [eqn.outvars[0] for eqn in ordered]
    compute = function_of(others, [*jaxpr.invars, *given], jaxpr.outvars, constants)

    def numbered(state: Any, batch_and_numbers: Any) -> Any:
        arrays, numbers = batch_and_numbers[: len(batch)], batch_and_numbers[len(batch) :]
        parts = [
            part
            for each, table in zip(numbers, sizes.values(), strict=True)
            for part in jnp.split(each, list(itertools.accumulate(table))[:-1])
        ]
        return jax.tree.unflatten(structure, compute(*jax.tree.leaves((state, arrays)), *parts))

    def ids(local: Sequence[jax.Array], batch: Any) -> dict[str, jax.Array]:
        made = iter(asked(*local, *jax.tree.leaves(batch)))
        return {path: jnp.concatenate([next(made) for _ in table]) for path, table in sizes.items()}

    numbers = {path: jax.ShapeDtypeStruct((sum(table),), jnp.int32) for path, table in sizes.items()}
    return NumberedStep(numbered, numbers, ids)
