"""Traced code, and the engine that compiles it: the one way from user code to a step on devices."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._split import ReplicatedBatch
from muster.program import Replicas, VariableSpec

State = Any
"""Values of variables, which a step may overwrite: a nested structure of arrays."""

Reads = Any
"""Values of variables that a step only reads: a nested structure of arrays."""

Step = Callable[[State, Reads, Any], tuple[State, Any]]
"""``(state, reads, batch) -> (state, results)``; the state is donated."""

Run = Callable[[State, Reads, Any, Replicas | None], tuple[State, Any]]
"""``(state, reads, batch, replicas) -> (state, results)``, pure."""

Executables = dict[str, Callable[..., Any]]
"""Fingerprint of a lowered function and the compiler's options -> the compiled one. An owner of programs
keeps one, so that a model that is built anew (for every evaluation, say) is not compiled anew."""


class View(enum.Enum):
    """Which part of a batch traced code sees."""

    REPLICA = "replica"  # its share of the batch; the code says where replicas reduce
    GLOBAL = "global"  # all of it, whose rows lie on all devices


@dataclass(frozen=True, kw_only=True)
class Traced:
    """Traced code as an engine compiles it: a program, a function, or a step of ``fit``.

    Each of ``state``, ``new_state``, ``batch`` and ``results`` says which arrays of a nested structure are
    sharded: divided among the replicas along their first axis. The others are the same on all replicas. A
    bool stands for a structure (a prefix, as JAX has them).

    Attributes:
        run: The code; pure.
        view: Which part of the batch it sees.
        variables: The variables that it uses; all workers must have the same.
        state: Sharding of the state that the code takes.
        new_state: Sharding of the state that it returns.
        batch: Sharding of what it takes; None shards every array with rows, and nothing of a
            ``ReplicatedBatch``.
        results: Sharding of what it returns; nothing of it for a ``ReplicatedBatch``.
    """

    run: Run
    view: View = View.REPLICA
    variables: Sequence[VariableSpec] = ()
    state: Any = False
    new_state: Any = False
    batch: Any = None
    results: Any = False

    def sharded(self, batch: Any) -> Any:
        """Return which arrays of a batch are sharded: bools in its structure, or in a prefix of it."""
        if isinstance(batch, ReplicatedBatch):
            return False
        if self.batch is not None:
            return self.batch
        return jax.tree.map(lambda leaf: np.ndim(leaf) > 0, batch)


class Engine(ABC):
    """Compiles traced code for the devices of a strategy."""

    @abstractmethod
    def compile(self, traced: Traced, executables: Executables | None = None) -> Step:
        """Return the step that runs traced code. Workers check here that they run the same.

        Args:
            traced: The code.
            executables: Compiled functions to use again and to add to; None to compile anew, for arguments
                wherever they are.

        Returns:
            The step. It takes this process' rows of a batch, or a ``ReplicatedBatch``, or ``StackedBatches``.
        """
