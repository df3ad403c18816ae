"""Traced code, and the interface of the engines, which compile it to a step on devices."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._split import ReplicatedBatch, unwrapped
from muster.program import Replicas
from muster.program.passes import Segment, split_at_all_reduces
from muster.program.variables import VariableSpec

State = Any
"""Values of variables, which a step may overwrite: a nested structure of arrays."""

Reads = Any
"""Values of variables that a step only reads: a nested structure of arrays."""

Step = Callable[[State, Reads, Any], tuple[State, Any]]
"""``(state, reads, batch) -> (state, results)``; the state is donated."""

Run = Callable[[State, Reads, Any, Replicas | None], tuple[State, Any]]
"""``(state, reads, batch, replicas) -> (state, results)``, pure."""

Executables = dict[str, Callable[..., Any]]
"""Fingerprint of a lowered function and the compiler's options -> the compiled function. An Estimator keeps
one, so that a model that is built anew (for every evaluation, say) is not compiled anew."""


@jax.tree_util.register_dataclass
@dataclass
class BatchGroup:
    """Worker batches of one shape, for steps that are dispatched together.

    Attributes:
        batches: At least one.
    """

    batches: list[Any]


class View(enum.Enum):
    """The part of a batch that traced code sees."""

    REPLICA = "replica"  # this replica's rows; the code says where replicas reduce
    GLOBAL = "global"  # all rows, which are sharded over the devices


@dataclass(frozen=True, kw_only=True, eq=False)
class Traced:
    """User code as a pure function, for an engine to compile: a program, a function, or a step of ``fit``.

    The fields ``…_sharded`` are nested structures of bools: True for arrays that are divided among the
    replicas along their first axis, False for arrays that are equal on all replicas. As in JAX, they may be
    prefixes: one bool stands for all arrays below it.

    Attributes:
        run: The code; pure.
        view: The part of the batch that it sees.
        variables: The variables that it uses; all workers must have the same.
        state_sharded: Sharding of the state that the code takes.
        new_state_sharded: Sharding of the state that it returns.
        batch_sharded: Sharding of the batch; None shards every array with rows. No array of a
            ``ReplicatedBatch`` is sharded.
        results_sharded: Sharding of its results, or a function that returns it whenever the code is compiled
            for a batch. No result of a ``ReplicatedBatch`` is sharded.
        may_move: Whether its variables may move to another device between steps, since other code uses them
            as well: then an engine of one device compiles it anew.
        cut: Cuts a step that runs the code at its reductions: `split_at_all_reduces`, or what calls it.
        of_all: Called with the results of all replicas, as global arrays, and with their sharding, in the
            program of the step: returns what the step returns; or with those of some, and their numbers. None
            for the results as they are.
        rows: The number of rows of a batch in the global view that has padding after them; None without.
        in_loops: Whether it is a function of a loop of the user's, whose arrays that are sharded have the
            values of all replicas, where workers come and go.
        loss: The key of the result that is the loss, if one is. Of a step whose loss is NaN, parameter
            servers get nothing.
    """

    run: Run
    view: View = View.REPLICA
    variables: Sequence[VariableSpec] = ()
    state_sharded: Any = False
    new_state_sharded: Any = False
    batch_sharded: Any = None
    results_sharded: Any = False
    may_move: bool = False
    cut: Callable[..., tuple[list[Segment], Any]] = split_at_all_reduces
    of_all: Callable[..., Any] | None = None
    rows: int | None = None
    loss: str | None = None
    in_loops: bool = False

    def step(
        self, state: State, reads: Reads, batch: Any, replicas: Replicas | None = None
    ) -> tuple[State, Any]:
        """Run the code on a worker batch."""
        return self.run(state, reads, unwrapped(batch), replicas)

    def sharded_results(self, batch: Any) -> Any:
        """Return the sharding of the results of a batch: bools in their structure, or in a prefix of it."""
        if isinstance(batch, ReplicatedBatch):
            return False
        return self.results_sharded() if callable(self.results_sharded) else self.results_sharded

    def sharded(self, batch: Any) -> Any:
        """Return the sharding of a batch: bools in its structure, or in a prefix of it."""
        if isinstance(batch, BatchGroup):
            return BatchGroup([self.sharded(each) for each in batch.batches])
        if isinstance(batch, ReplicatedBatch):
            return False
        if self.batch_sharded is not None:
            return self.batch_sharded
        return jax.tree.map(lambda leaf: np.ndim(leaf) > 0, batch)


class Engine(ABC):
    """Compiles traced code for the devices of a strategy.

    Attributes:
        looks_up_rows: Whether the state of a step, a dict, may have a `MappedArray` that the step does not
            change, which stays as it is.
        starts_lazily: Whether the first state of a step, a dict, may have a `LazyArray`.
        trains_hashed: Whether steps may train hashed tables.
    """

    looks_up_rows = False
    starts_lazily = False
    trains_hashed = False

    @abstractmethod
    def compile(self, traced: Traced, executables: Executables) -> Step:
        """Return the step that runs traced code. Workers check here that they use the same variables.

        Args:
            traced: The code.
            executables: Compiled functions by fingerprint, looked up and added to.

        Returns:
            The step. It takes worker batches and ``BatchGroup`` s of them.

        Raises:
            MismatchError: Workers use other variables.
        """
