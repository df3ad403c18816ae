"""Run code that cannot handle uneven replicas: each replica computes the whole batch, counted once."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.distribute.functions._compiled_function import CompiledFunction
from muster.distribute.functions._draws import Draws
from muster.distribute.replicas._values import PerReplica, replicated
from muster.distribute.workers._workers import Workers


class ReplicatedFallback:
    """Calls a function with all rows of each uneven batch in place of the rows of each replica.

    Args:
        python_function: The function.
        leaves: The flat arguments of the first call.
        structure: The structure of the arguments.
        draws: As for ``CompiledFunction``.
        workers: The processes; None if this one has the rows of all.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: jax.tree_util.PyTreeDef,
        draws: Draws | None,
        workers: Workers | None,
    ) -> None:
        self._workers = workers
        self._call = CompiledFunction(python_function, self._whole(leaves), structure, draws, whole=True)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the compiled function, with arguments as for ``CompiledFunction``."""
        return self._call(self._whole(leaves))

    def _whole(self, leaves: Sequence[Any]) -> list[Any]:
        return [
            _all_rows(leaf, self._workers) if isinstance(leaf, PerReplica) and leaf.kind.has_rows else leaf
            for leaf in leaves
        ]


def can_be_whole(leaves: Sequence[Any], workers: Workers | None) -> bool:
    """Return whether arguments have uneven batches, and no other values computed from such.

    Args:
        leaves: Flat arguments, and the arrays that were drawn from iterators.
        workers: The processes, with which rows can be exchanged; None if they are not known.
    """
    uneven = [leaf for leaf in leaves if isinstance(leaf, PerReplica) and leaf.kind.is_uneven]
    return bool(uneven) and all(
        leaf.kind.has_rows and (workers is not None or _is_complete(leaf)) for leaf in uneven
    )


def _is_complete(value: PerReplica) -> bool:
    """Return whether this process has the values of all replicas."""
    return len(value.values) == len(value.kind.sizes or ())


def _all_rows(value: PerReplica, workers: Workers | None) -> PerReplica:
    own = value.values
    rows = np.concatenate([np.asarray(each) for each in own])
    if workers is not None and not _is_complete(value):
        rows = np.concatenate(workers.all_gather(rows))
    return replicated(rows, len(own))
