"""The per-replica values of "on_read" variables, such as metrics, between steps."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._split import Split
from muster.program.variables import ByIdentity, VariableSpec
from muster.program.variables.keras_internals import value_of


class ReplicaValues:
    """Keeps this process' per-replica values of variables with the synchronization "on_read".

    The variable itself holds their aggregate: the sum, the mean, or the first replica's value. If it is
    assigned between steps, for example by restoring a checkpoint, the new value is divided among the
    replicas.

    Args:
        split: The number of replicas.
        sharding: The sharding of the values, along their first axis.

    Source: tensorflow/python/distribute/values.py, ``SyncOnReadVariable``.
    """

    def __init__(self, split: Split, sharding: jax.sharding.Sharding | None) -> None:
        self._split = split
        self._sharding = sharding
        self._known: ByIdentity[tuple[jax.Array, jax.Array | None]] = ByIdentity()

    def take(self, variables: Sequence[tuple[VariableSpec, Any]]) -> list[jax.Array]:
        """Return the per-replica values of each variable, stacked along a new first axis, per process.

        Args:
            variables: The variables and their specs.
        """
        stacks = []
        for spec, variable in variables:
            value = value_of(variable)
            known, stack = self._known.get(variable, (value, None))
            stacks.append(stack if stack is not None and known is value else self._divide(spec, value))
        return stacks

    def give(self, variables: Sequence[tuple[VariableSpec, Any]], stacks: Sequence[jax.Array]) -> None:
        """Keep the values that a step has returned.

        Args:
            variables: The variables and their specs; they have been assigned the aggregates.
            stacks: As ``take`` returns them.
        """
        for (_, variable), stack in zip(variables, stacks, strict=True):
            self._known[variable] = value_of(variable), stack

    def _divide(self, spec: VariableSpec, total: jax.Array) -> jax.Array:
        """Return per-replica values whose aggregate is ``total``."""
        value = np.asarray(total)
        stack = np.repeat(value[None], self._split.local_replicas, axis=0)
        if spec.aggregation == "sum":
            count = self._split.replicas
            if np.issubdtype(value.dtype, np.integer):
                stack = stack // count
                if self._split.share.first == 0:
                    stack[0] += value % count
            else:
                stack = stack / count
        values: jax.Array = jax.make_array_from_process_local_data(self._sharding, stack.astype(value.dtype))
        return values
