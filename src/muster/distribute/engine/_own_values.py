"""Variables that each replica has a value of its own of, from step to step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from muster.program import ByIdentity, VariableSpec, value_of

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

Array = Any


class OwnValues:
    """What this process' replicas have of the variables whose synchronization is "on_read".

    The variable itself holds what these come to: their sum, their mean, or the first one. When it is given
    another value between steps, as by a checkpoint, the replicas' are made anew from that.

    Source: tensorflow/python/distribute/values.py, ``SyncOnReadVariable``.

    Args:
        strategy: whose replicas they are.
    """

    def __init__(self, strategy: "Strategy") -> None:
        self._strategy = strategy
        self._known: ByIdentity[tuple[Array, Array]] = ByIdentity()

    def of(self, variables: Sequence[tuple[VariableSpec, Any]]) -> list[Array]:
        """The values of this process' replicas along a new first axis, of each variable.

        Args:
            variables: what is known of each, and the variable.
        """
        stacks = []
        for spec, variable in variables:
            value = value_of(variable)
            of_value, stack = self._known.get(variable, (None, None))
            stacks.append(stack if of_value is value else self._shared_out(spec, value))
        return stacks

    def keep(self, variables: Sequence[tuple[VariableSpec, Any]], stacks: Sequence[Array]) -> None:
        """Keep what a step has made of them.

        Args:
            variables: as for ``of``; they have been given what the stacks come to.
            stacks: as ``of`` gives them.
        """
        for (_, variable), stack in zip(variables, stacks, strict=True):
            self._known[variable] = value_of(variable), stack

    def _shared_out(self, spec: VariableSpec, total: Array) -> Array:
        """The replicas' own values of a variable that was given one."""
        strategy, value = self._strategy, np.asarray(total)
        stack = np.repeat(value[None], strategy.local_replicas, axis=0)
        if spec.aggregation == "sum":
            count = strategy.num_replicas_in_sync
            if np.issubdtype(value.dtype, np.integer):
                stack = stack // count
                if strategy.input_context.input_pipeline_id == 0:
                    stack[0] += value % count
            else:
                stack = stack / count
        return jax.make_array_from_process_local_data(strategy.own_sharding, stack.astype(value.dtype))
