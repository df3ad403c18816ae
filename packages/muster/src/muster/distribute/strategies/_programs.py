"""Compiles and starts the programs of Estimators on a strategy's replicas."""

from contextlib import AbstractContextManager
from typing import Any

import jax

from muster._arrays import LazyArray
from muster.checkpoint import MappedArray
from muster.distribute.engine._hashed_columns import is_hashed
from muster.distribute.engine._rows_in_files import with_tables, without_tables
from muster.distribute.engine._state_store import ArrayStore, StateStore
from muster.distribute.engine._traced import Executables, Reads, State, Step, Traced
from muster.distribute.replicas._replica_context import ReplicaContext, entered
from muster.distribute.strategies._strategy import Strategy
from muster.program import Replicas
from muster.program.trace import Program, functions_run_eagerly


def as_replica(strategy: Strategy, replicas: Replicas | None = None) -> AbstractContextManager[None]:
    """Run code as one of a strategy's replicas: of those that run a step in parallel, or alone."""
    return entered(ReplicaContext(strategy, replicas))


def compile_program(
    strategy: Strategy, program: Program[Any], executables: Executables, loss: str | None = None
) -> Step:
    """Compile a program for a strategy's replicas. Workers check here that they use the same variables.

    Args:
        strategy: The strategy.
        program: The program.
        executables: Compiled functions by fingerprint, looked up and added to.
        loss: The name of the output that is the loss that it trains on; None if it does not train.

    Returns:
        ``(state, reads, batch) -> (state, outputs)``, which donates the state. It takes ``BatchGroup``
        too, unless functions run eagerly.

    Raises:
        ValueError: Functions run eagerly, and there is more than one replica, or there are parameter servers.
    """
    if functions_run_eagerly():
        if strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"run_functions_eagerly(True) debugs one replica; {strategy} has "
                f"{strategy.num_replicas_in_sync}. Leave the strategy out to debug."
            )
        if loss is not None and strategy.steps.shared:
            raise ValueError(
                "run_functions_eagerly(True) debugs one process, and this one trains variables on parameter "
                "servers. Unset TF_CONFIG, or leave the strategy out, to debug."
            )

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            with as_replica(strategy):
                return program.step_eagerly(state, batch)

        return step
    return strategy.engine.compile(traced_program(program, strategy, loss), executables)


def traced_program(program: Program[Any], strategy: Strategy, loss: str | None = None) -> Traced:
    """Return a program for an engine to compile: outputs with rows are sharded, as the batch is.

    Its code runs in the context of a replica of the strategy.
    """

    def run(state: State, reads: Reads, batch: Any, replicas: Replicas | None) -> tuple[State, Any]:
        with as_replica(strategy, replicas):
            return program.step(state, batch, replicas=replicas)

    def by_row() -> Any:  # asked late: outputs may be exposed until the step is compiled
        return jax.tree.map(lambda shape: bool(shape.shape), program.outputs)

    return Traced(run=run, variables=program.variables, results_sharded=by_row, loss=loss)


def start_program(strategy: Strategy, state: dict[str, Any], *, trains: bool = True) -> StateStore:
    """Place the state of a program on a strategy's devices, and return its store.

    Args:
        strategy: The strategy.
        state: Path -> initial or restored value of each variable; all workers take the chief's values.
        trains: Whether steps change variables. Else, values that lie in files may stay there, for steps that
            look up rows of them, if the strategy's engine can do so.
    """
    engine = strategy.engine
    lazy: type[LazyArray] | tuple[()] = ()
    if trains and engine.starts_lazily:
        lazy = LazyArray
    elif not trains and engine.looks_up_rows and not functions_run_eagerly():
        lazy = MappedArray
    by_id = [path for path, value in state.items() if trains and is_hashed(value.shape)]
    if by_id and (not engine.trains_hashed or functions_run_eagerly()):
        raise NotImplementedError(
            f"{by_id[0]} is of a hashed table, which a worker beside parameter servers trains, or one "
            f"process on one device, without run_functions_eagerly; and not {strategy}. Leave out "
            "train_distribute, or give the job parameter servers."
        )
    arrays = without_tables(state)
    placed = [path for path, value in arrays.items() if not (isinstance(value, lazy) or path in by_id)]
    values = strategy.placement.start([arrays[path] for path in placed])
    arrays.update(zip(placed, values, strict=True))
    store = ArrayStore(with_tables(arrays), tuple(state))
    return strategy.placement.store(store)
