"""One compiled call of a function, for arguments of one kind."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from muster._arrays import AnyArray
from muster._keras import keras
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._state_store import StateStore, VariableStore
from muster.distribute.engine._traced import Engine, Traced
from muster.distribute.functions._draws import Draws
from muster.distribute.functions._traced_iterator import TracedIterator
from muster.distribute.input._distributed_dataset import DistributedIterator
from muster.distribute.replicas._values import PerReplica, is_array, is_leaf
from muster.program import Replicas
from muster.program.trace import FunctionProgram
from muster.program.variables import current_scope, origin_of, set_values, unshared_values, values_of

ARRAY = object()
"""Stands for an array among values that are constants of a program."""


@dataclass(frozen=True)
class Results:
    """The values that a function returned, without their arrays.

    Attributes:
        structure: The structure of all values.
        constants: The values that are no arrays; ``ARRAY`` stands for an array.
        per_replica: For each array, whether it is a ``PerReplica``, and whether it is replicated.
    """

    structure: Any
    constants: tuple[Any, ...]
    per_replica: tuple[tuple[bool, bool], ...]

    @property
    def only_arrays(self) -> bool:
        """Whether all values are arrays that are not ``PerReplica``."""
        return all(each is ARRAY for each in self.constants) and not any(per for per, _ in self.per_replica)

    def filled(self, arrays: Sequence[AnyArray]) -> Any:
        """Return the values with these arrays filled in."""
        return self.structure.unflatten(filled(self.constants, arrays, self.per_replica))


class Call:
    """Calls a function with arguments of one kind.

    Args:
        python_function: The function.
        leaves: The flat arguments of the first call.
        structure: The structure of the arguments.
        draws: The batches drawn so far from the iterators among the arguments; tracing draws more, or gives
            some back. None without iterators.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: Any,
        draws: Draws | None = None,
    ) -> None:
        draws = draws or Draws([])
        recording: Draws | None = draws
        numbers = {source: number for number, source in enumerate(iterators_among(leaves))}
        iterators = [TracedIterator(draws, number) for number in numbers.values()]
        constants = [
            iterators[numbers[leaf]] if isinstance(leaf, DistributedIterator) else constant_of(leaf)
            for leaf in leaves
        ]
        per_replica = [kind_of_replicas(leaf) for leaf in leaves if is_dynamic(leaf)]
        passed = len(per_replica)  # the arrays of drawn batches follow them
        self._only_arrays = not numbers and all(map(is_array, leaves))

        def body(arrays: list[jax.Array]) -> tuple[list[jax.Array], Results]:
            if recording is not None:
                recording.record()
            for iterator in iterators:
                iterator.begin(arrays[passed:])
            values = filled(constants, arrays[:passed], per_replica)
            args, kwargs = jax.tree.unflatten(structure, values)
            return flattened(python_function(*args, **kwargs))

        example = [_shape_per_replica(leaf) for leaf in leaves if is_dynamic(leaf)]
        program: FunctionProgram[Results] = FunctionProgram(body, example)
        results = program.static
        self._finish = results.structure.unflatten if results.only_arrays else results.filled
        if program.strategy is not None:
            _require_replicas(leaves, program.strategy)
        draws.end_recording()
        recording = None
        for iterator in iterators:
            iterator.end_recording()
        takes = [*(per for per, _ in per_replica), *draws.per_replica]
        self._compile(program, takes, [per for per, _ in results.per_replica])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call it.

        Args:
            leaves: Flat arguments of its kind, and after them the arrays of the batches that it draws.
        """
        arrays = [*leaves] if self._only_arrays else [data_of(leaf) for leaf in leaves if is_dynamic(leaf)]
        state, reads = self._store.take()
        state, results = self._step(state, reads, arrays)
        self._store.give(state)
        return self._finish(results)

    def _compile(self, program: FunctionProgram[Any], takes: list[bool], gives: list[bool]) -> None:
        strategy = program.strategy
        placement = None if strategy is None else strategy.placement
        store = VariableStore(
            program,
            replicated=strategy is not None and strategy.num_replicas_in_sync > 1,
            sharding=None if placement is None else placement.sharding,
            replica_values=None if placement is None else placement.replica_values,
        )
        before = [False] * len(store.changes) + [True] * len(store.per_replica)
        traced = Traced(
            run=functools.partial(_run, program, store, takes, gives),
            variables=program.variables,
            state_sharded=before,
            new_state_sharded=before + [False] * len(store.aggregates),
            batch_sharded=takes,
            results_sharded=gives,
        )
        engine: Engine = DeviceEngine() if strategy is None else strategy.engine
        self._step = engine.compile(traced)
        if strategy is not None:
            _start(strategy, store, program.created)
        self._store: StateStore = store if placement is None else placement.store(store)


def _run(
    program: FunctionProgram[Any],
    store: VariableStore,
    takes: Sequence[bool],
    gives: Sequence[bool],
    state: list[jax.Array],
    reads: list[jax.Array],
    arrays: list[jax.Array],
    replicas: Replicas | None,
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Run a function as one replica; per-replica values have a first axis of length 1."""
    arrays = [array[0] if per_replica else array for array, per_replica in zip(arrays, takes, strict=True)]
    shared = len(store.changes)
    values = [*state[:shared], *reads, *[value[0] for value in state[shared:]]]
    paths = (*store.changes, *store.reads, *store.per_replica)
    after, results = program.step(dict(zip(paths, values, strict=True)), arrays, replicas=replicas)
    per_replica = [after[path][None] for path in store.per_replica]
    changed, aggregates = ([after[path] for path in paths] for paths in (store.changes, store.aggregates))
    results = [a[None] if per_replica else a for a, per_replica in zip(results, gives, strict=True)]
    return [*changed, *per_replica, *aggregates], results


def _start(strategy: Any, store: VariableStore, created: Sequence[Any]) -> None:
    """Place the values of variables that are new to a strategy: the chief's values on all workers.

    Args:
        strategy: The strategy on whose replicas the function runs.
        store: The variables that it uses.
        created: The variables that it created, also those that it does not use.
    """
    shared, others = store.shared_variables, store.per_replica_variables
    known = {id(variable) for variable in (*shared, *others)}
    fresh = [variable for variable in created if origin_of(variable).owner is strategy]
    others += [variable for variable in fresh if id(variable) not in known]
    # A placed value could share its buffer with the original, so nothing else may hold that.
    values = [*unshared_values(shared), *values_of(others)]
    set_values([*shared, *others], strategy.placement.start_new([*shared, *others], values))


def filled(
    constants: Sequence[Any], arrays: Sequence[AnyArray], per_replica: Sequence[tuple[bool, bool]]
) -> list[Any]:
    """Return the constants with arrays in place of ``ARRAY``."""
    pairs = zip(arrays, per_replica, strict=True)
    values = iter([PerReplica(array, replicated) if per else array for array, (per, replicated) in pairs])
    return [next(values) if each is ARRAY else each for each in constants]


def flattened(returned: Any) -> tuple[list[jax.Array], Results]:
    """Separate the arrays from the other values that a function returned."""
    scope = current_scope()
    leaves, structure = jax.tree.flatten(returned, is_leaf=is_leaf)
    arrays, constants, per_replica = [], [], []
    for leaf in leaves:
        if isinstance(leaf, keras.Variable) and scope is not None:
            leaf = scope.read(leaf)
        if isinstance(leaf, bool | int | float | complex) or is_array(leaf):
            leaf = jnp.asarray(leaf)
        if is_dynamic(leaf):
            arrays.append(data_of(leaf))
            per_replica.append(kind_of_replicas(leaf))
            leaf = ARRAY
        constants.append(leaf)
    return arrays, Results(structure, tuple(constants), tuple(per_replica))


def iterators_among(leaves: Sequence[Any]) -> list[DistributedIterator]:
    """Return the distinct iterators among flat arguments."""
    return list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, DistributedIterator)))


def constant_of(leaf: Any) -> Any:
    """Return an argument as a constant of the program, and ``ARRAY`` for a dynamic one."""
    return ARRAY if is_dynamic(leaf) else leaf


def is_dynamic(leaf: Any) -> bool:
    """Whether an argument is an input of the program rather than a constant of it."""
    return isinstance(leaf, PerReplica) or is_array(leaf)


def data_of(leaf: Any) -> Any:
    """Return the array of a dynamic argument."""
    return leaf.data if isinstance(leaf, PerReplica) else leaf


def kind_of_replicas(leaf: Any) -> tuple[bool, bool]:
    """Return whether a value is a ``PerReplica``, and whether it is replicated."""
    return (True, leaf.replicated) if isinstance(leaf, PerReplica) else (False, False)


def _shape_per_replica(leaf: Any) -> jax.ShapeDtypeStruct:
    array = data_of(leaf)
    shape = array.shape[1:] if isinstance(leaf, PerReplica) else array.shape
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(array.dtype, allow_extended_dtype=True))


def _require_replicas(leaves: Sequence[Any], strategy: Any) -> None:
    """Check that per-replica arguments have as many values as a strategy has replicas.

    Raises:
        ValueError: One has more or fewer.
    """
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            local = getattr(leaf.data, "is_fully_addressable", True)
            expected = strategy.local_replicas if local else strategy.num_replicas_in_sync
            if len(leaf.data) != expected:
                raise ValueError(
                    f"A value of {len(leaf.data)} replicas was passed to {strategy}, which has {expected}: "
                    "it comes from another strategy."
                )
