"""Variables that each replica has a value of its own of, from step to step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from muster.program import ByIdentity, VariableSpec, combined_path

if TYPE_CHECKING:
    from muster.distribute._strategy import Strategy

Array = Any
State = dict[str, Array]


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

    def of(self, variables: Sequence[tuple[VariableSpec, Any]], state: State) -> State:
        """path -> the values of this process' replicas along a new first axis.

        Args:
            variables: what is known of each, and the variable.
            state: path -> value, global.
        """
        stacks = {}
        for spec, variable in variables:
            value = state[spec.path]
            of_value, stack = self._known.get(variable, (None, None))
            stacks[spec.path] = stack if of_value is value else self._shared_out(spec, value)
        return stacks

    def keep(self, variables: Sequence[tuple[VariableSpec, Any]], before: State, after: State) -> None:
        """Keep what a step has made of them.

        Args:
            variables: as for ``of``.
            before: path -> value of each variable before the step, global.
            after: the state that the step returned.
        """
        for spec, variable in variables:
            value = after.get(combined_path(spec.path), before[spec.path])
            self._known[variable] = value, after[spec.path]

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
