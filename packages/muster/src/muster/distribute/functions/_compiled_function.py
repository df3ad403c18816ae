"""A function, traced and compiled for one kind of arguments: of the same structure, shapes and dtypes."""

import atexit
import functools
import math
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from muster._compilation_cache import keep_compiled
from muster._errors import DatasetError
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._state_store import StateStore, VariableStore
from muster.distribute.engine._traced import Engine, Traced
from muster.distribute.functions._draws import Draws
from muster.distribute.functions._traced_function import TracedIterator, data_of, is_dynamic, traced_function
from muster.distribute.input._distributed_dataset import DistributedIterator
from muster.distribute.replicas._replica_context import ReplicaGroup
from muster.distribute.replicas._values import Padded, PerReplica, ReplicaKind, is_array
from muster.distribute.workers import ElasticWorkers
from muster.lifecycle import at_block_end
from muster.program import Replicas, keepable, only_data_errors
from muster.program.trace import FunctionProgram
from muster.program.variables import origin_of

# How many calls are dispatched before the first half of them is checked.
_UNCHECKED = 16


class CompiledFunction:
    """Traces and compiles a function for arguments like those of a first call, and calls it.

    Args:
        python_function: The function.
        leaves: The flat arguments of the first call.
        structure: The structure of the arguments.
        draws: The batches drawn so far from the iterators among the arguments; tracing draws more, or gives
            some back. None without iterators.
        whole: Whether the arrays of drawn uneven batches are passed with all rows for each replica.
        once: See `FunctionProgram`.
        mends: See `FunctionProgram`.

    Attributes:
        strategy: The strategy that runs parts of the function, if any.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: PyTreeDef,
        draws: Draws | None = None,
        *,
        whole: bool = False,
        once: bool = False,
        mends: bool = True,
    ) -> None:
        self._unchecked: list[tuple[Sequence[Any], Any]] = []
        draws = draws or Draws([])
        sources = iterators_among(leaves)
        traced = {source: TracedIterator(draws, number, whole) for number, source in enumerate(sources)}
        self._only_arrays = not traced and all(map(is_array, leaves))
        program, arguments = traced_function(
            python_function, leaves, structure, draws, traced, once=once, mends=mends
        )
        results = program.static
        self.strategy: Any = program.strategy
        self._finish = results.structure.unflatten if results.only_arrays else results.filled
        if program.strategy is not None:
            _require_replicas(leaves, program.strategy)
        takes = [*(kind is not None for kind in arguments.kinds), *draws.per_replica]
        self._program, self._takes, self._has_labels = program, takes, program.has_labels
        if self._has_labels:
            _WITH_LABELS.add(self)
            # The last one registered, it comes before the job's end.
            if not at_block_end(_check_labels_of_block):
                atexit.unregister(_check_labels_at_end)
                atexit.register(_check_labels_at_end)
        gives = [kind is not None for kind in results.kinds]
        self._compile(program, takes, [*gives, True] if self._has_labels else gives)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the compiled function.

        Args:
            leaves: Flat arguments like the first ones, then the arrays of the batches that the call draws.
        """
        arrays = [*leaves] if self._only_arrays else [data_of(leaf) for leaf in leaves if is_dynamic(leaf)]
        state, reads = self._store.take()
        if self._workers is None:
            state, results = self._step(state, reads, arrays)
        else:  # which keep the state until the step is done
            state, results = self._workers.stepped(functools.partial(self._step, state, reads, arrays))
        self._store.give(state)
        if self._has_labels:
            self._unchecked.append((arrays, results.pop()))
            if len(self._unchecked) >= keepable(arrays, _UNCHECKED):
                self.check_labels()
        return self._finish(results)

    # A default, since the module's names may be gone when the interpreter ends.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # The function of a program's `main` is gone before the program's end; one that has failed stays.
        if not is_finalizing() and any(_has_nan(result) for _, result in self._unchecked):
            _GONE.append(self)

    def check_labels(self, *, wait: bool = False) -> None:
        """Raise an error if an earlier call had a label that is no class.

        Args:
            wait: Whether to check all calls, rather than the first half, which leaves the device busy.

        Raises:
            DatasetError: A label is out of range.
        """
        count = len(self._unchecked) if wait else (len(self._unchecked) + 1) // 2
        checked, self._unchecked = self._unchecked[:count], self._unchecked[count:]
        for arrays, result in checked:
            if not _has_nan(result):
                continue
            with only_data_errors():
                self._program.run_eagerly(
                    [_merged(a) if per else a for a, per in zip(arrays, self._takes, strict=True)]
                )

    def _compile(self, program: FunctionProgram[Any], takes: list[bool], gives: list[bool]) -> None:
        strategy = program.strategy
        placement = Placement(None) if strategy is None else strategy.placement
        store = VariableStore(
            program,
            replicated=strategy is not None and strategy.num_replicas_in_sync > 1,
            sharding=placement.sharding,
            replica_values=placement.replica_values,
        )

        def run(
            state: list[jax.Array], reads: list[jax.Array], arrays: list[jax.Array], replicas: Replicas | None
        ) -> tuple[list[jax.Array], list[jax.Array]]:
            values = [*_of_replica(state, store.state_sharded), *reads]
            before = dict(zip(store.paths, values, strict=True))
            after, results = program.step(before, _of_replica(arrays, takes), replicas=replicas)
            if program.has_labels:
                results = [*results, _nan_of(after, results, program)]
            new_state = [after[path] for path in store.new_state_paths]
            return _per_replica(new_state, store.new_state_sharded), _per_replica(results, gives)

        traced = Traced(
            run=run,
            variables=program.variables,
            state_sharded=store.state_sharded,
            new_state_sharded=store.new_state_sharded,
            batch_sharded=takes,
            results_sharded=gives,
            may_move=True,
            in_loops=True,
        )
        workers = None if strategy is None else strategy.workers
        self._workers = workers if isinstance(workers, ElasticWorkers) else None
        engine: Engine = DeviceEngine() if strategy is None else strategy.engine
        keep_compiled(None)
        self._step = engine.compile(traced, {})
        if strategy is not None:
            created = [v for v in program.created if origin_of(v).owner is strategy]
            placement.start_variables(store.shared_variables, [*store.per_replica_variables, *created])
        self._store: StateStore = placement.store(store)


_WITH_LABELS: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()
_GONE: deque[CompiledFunction] = deque(maxlen=1)
"""The last call that has given NaN and would be gone, unchecked."""


def check_labels() -> None:
    """Wait for all functions that train on class labels, and raise an error if one of them is no class."""
    for call in [*_GONE, *_WITH_LABELS]:
        call.check_labels(wait=True)


def _check_labels_at_end() -> None:
    """Report a label that is no class when the program ends without an error; a job's task then fails."""
    if hasattr(sys, "last_value"):
        return
    try:
        check_labels()
    except DatasetError as exc:
        sys.excepthook(type(exc), exc, exc.__traceback__)


def _check_labels_of_block(error: BaseException | None) -> None:
    if error is None:
        check_labels()


def _nan_of(
    after: Mapping[str, jax.Array], results: Sequence[Any], program: FunctionProgram[Any]
) -> jax.Array:
    """Return NaN, shape (), if a number among the results or the smallest new variable has one."""
    assigned = [after[spec.path] for spec in program.variables if spec.path in program.assigned]
    floats = [value for value in assigned if jnp.issubdtype(value.dtype, jnp.floating)]
    numbers = [value for value in results if value.ndim == 0 and jnp.issubdtype(value.dtype, jnp.floating)]
    chosen = numbers + sorted(floats, key=lambda value: value.size)[:1]
    return sum((jnp.sum(value).astype("float32") for value in chosen), start=jnp.float32(0))


def _has_nan(array: jax.Array) -> bool:
    """Return whether a value of this process' replicas is NaN, in half the time of NumPy's functions."""
    whole = array.is_fully_addressable
    parts = [array] if whole else [shard.data for shard in array.addressable_shards]
    return any(math.isnan(sum(np.asarray(part).tolist())) for part in parts)


def _merged(array: Any) -> Any:
    """Return the rows of this process' replicas one after the other."""
    if isinstance(array, Padded):
        return np.concatenate([np.asarray(value) for value in PerReplica.of(array, ReplicaKind()).values])
    rows = (
        np.concatenate([np.asarray(s.data) for s in array.addressable_shards])
        if isinstance(array, jax.Array)
        else array
    )
    return rows.reshape(-1, *rows.shape[2:])


def _of_replica(values: Sequence[jax.Array], sharded: Sequence[bool]) -> list[jax.Array]:
    """Return values as one replica sees them: per-replica ones without their first axis, of length 1."""
    return [value[0] if each else value for value, each in zip(values, sharded, strict=True)]


def _per_replica(values: Sequence[jax.Array], sharded: Sequence[bool]) -> list[jax.Array]:
    """Undo ``_of_replica``."""
    return [value[None] if each else value for value, each in zip(values, sharded, strict=True)]


def iterators_among(leaves: Sequence[Any]) -> list[DistributedIterator]:
    """Return the distinct iterators among flat arguments."""
    return list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, DistributedIterator)))


def _require_replicas(leaves: Sequence[Any], strategy: ReplicaGroup) -> None:
    """Check that per-replica arguments have as many values as a strategy has replicas.

    Raises:
        ValueError: One has more or fewer.
    """
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            local = getattr(leaf.data, "is_fully_addressable", True)
            expected = strategy.values_here if local else strategy.num_replicas_in_sync
            if len(leaf.data) != expected:
                raise ValueError(
                    f"A value of {len(leaf.data)} replicas was passed to {strategy}, which has {expected}: "
                    "it comes from another strategy."
                )
