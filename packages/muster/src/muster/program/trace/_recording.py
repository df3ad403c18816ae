"""Reuse the trace of the recording run as the program where possible, so that user code runs once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex

from muster.program.gradients._resolve import gradient_p
from muster.program.passes._jaxprs import Values, body_contains, contains, type_of
from muster.program.trace._function_scope import FunctionScope, unknown_p


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The trace of a function, with placeholders for the values of its variables.

    Args:
        closed: Takes the flat arguments; returns new values of variables, then the flat outputs.
        paths: The path of each variable whose new value it returns.
        reads: The path of the variable whose value each placeholder stands for, by what it computes.
    """

    closed: jex.ClosedJaxpr
    paths: Sequence[str]
    reads: dict[Any, str]

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Return whether flat arguments have the shapes and dtypes of those of the recording run."""
        avals = [jax.typeof(leaf) for leaf in leaves]
        known = [type_of(v) for v in self.closed.jaxpr.invars]
        return [(each.shape, each.dtype) for each in avals] == [(each.shape, each.dtype) for each in known]

    def run(
        self, state: dict[str, jax.Array], leaves: Sequence[Any]
    ) -> tuple[dict[str, jax.Array], list[Any]]:
        """Compute the function.

        Args:
            state: Path -> value of each of its variables.
            leaves: Its flat arguments.

        Returns:
            The new state, and the flat outputs.
        """
        values = Values.of(self.closed, leaves)
        values |= {made: state[path] for made, path in self.reads.items()}
        values.compute([eqn for eqn in self.closed.jaxpr.eqns if eqn.primitive is not unknown_p])
        results = values.read(self.closed.jaxpr.outvars)
        count = len(self.paths)
        return {**state, **dict(zip(self.paths, results[:count], strict=True))}, results[count:]


def recording_of(closed: jex.ClosedJaxpr, paths: Sequence[str], scope: FunctionScope) -> Recording | None:
    """Return what was recorded, if running the code once more would trace the same; None if not.

    It would not where parts run on replicas, where gradients are asked for, whose sources are values of
    variables, and where the body of a loop or branch reads variables.
    """
    if scope.strategy is not None or scope.has_labels or scope.has_stand_ins or scope.created_here:
        return None
    known = {id(variable): spec for spec, variable in scope.table.pairs}
    if any(spec.per_replica for spec in known.values()) or contains(closed.jaxpr, gradient_p):
        return None
    reads = {}
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive is unknown_p:
            if eqn.params["of"] not in known:
                return None
            reads[eqn.outvars[0]] = known[eqn.params["of"]].path
        elif body_contains(eqn, unknown_p):
            return None
    return Recording(closed=closed, paths=paths, reads=reads)
