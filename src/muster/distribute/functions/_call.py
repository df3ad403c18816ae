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
from muster.program import (
    FunctionProgram,
    Replicas,
    current_scope,
    origin_of,
    set_values,
    unshared_values,
    values_of,
)

ARRAY = object()
"""Stands for an array among values that are constants of a program."""


@dataclass(frozen=True)
class Results:
    """The values that a function returned, without their arrays.

    Attributes:
        structure: The structure of all values.
        constants: The values that are no arrays; ``ARRAY`` stands for an array.
        per_replica: For each array, whether it is a ``PerReplica``, and whether that is replicated.
    """

    structure: Any
    constants: tuple[Any, ...]
    per_replica: tuple[tuple[bool, bool], ...]

    @property
    def only_arrays(self) -> bool:
        """Whether the values are the arrays as they are."""
        return all(each is ARRAY for each in self.constants) and not any(per for per, _ in self.per_replica)

    def filled(self, arrays: Sequence[AnyArray]) -> Any:
        """Return the values with these arrays."""
        return self.structure.unflatten(filled(self.constants, arrays, self.per_replica))


class Call:
    """Calls a function with arguments of one kind.

    Args:
        python_function: The function.
        leaves: The flat arguments of the first call.
        structure: The structure of the arguments.
        draws: The batches that the function seems to take from the iterators among them; it takes more, or
            gives some back.
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
        places = {source: place for place, source in enumerate(iterators_among(leaves))}
        iterators = [TracedIterator(draws, place) for place in places.values()]
        constants = [
            iterators[places[leaf]] if isinstance(leaf, DistributedIterator) else constant_of(leaf)
            for leaf in leaves
        ]
        per_replica = [kind_of_replicas(leaf) for leaf in leaves if is_dynamic(leaf)]
        known = len(per_replica)
        self._only_arrays = not places and all(map(is_array, leaves))

        def body(arrays: list[jax.Array]) -> tuple[list[jax.Array], Results]:
            if recording is not None:
                recording.record()
            for iterator in iterators:
                iterator.begin(arrays[known:])
            values = filled(constants, arrays[:known], per_replica)
            args, kwargs = jax.tree.unflatten(structure, values)
            return flattened(python_function(*args, **kwargs))

        example = [_shape_per_replica(leaf) for leaf in leaves if is_dynamic(leaf)]
        program: FunctionProgram[Results] = FunctionProgram(body, example)
        results = program.static
        self._finish = results.structure.unflatten if results.only_arrays else results.filled
        if program.strategy is not None:
            _require_replicas(leaves, program.strategy)
        draws.recorded()
        recording = None
        for iterator in iterators:
            iterator.recorded()
        takes = [*(per for per, _ in per_replica), *draws.per_replica]
        self._compile(program, takes, [per for per, _ in results.per_replica])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call it with arguments of its kind, and after them the arrays of the batches that it draws."""
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
            several=strategy is not None and strategy.num_replicas_in_sync > 1,
            sharding=None if placement is None else placement.sharding,
            replica_values=None if placement is None else placement.replica_values,
        )
        before = [False] * len(store.changes) + [True] * len(store.per_replica)
        traced = Traced(
            run=functools.partial(_run, program, store, takes, gives),
            variables=program.variables,
            state=before,
            new_state=before + [False] * len(store.aggregates),
            batch=takes,
            results=gives,
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
    """Run a function as one replica; values per replica have a first axis of one replica."""
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
    """Give variables that are new to a strategy the values that it wants, where it wants them.

    Args:
        strategy: The strategy on whose replicas the function runs.
        store: The variables that it uses.
        created: The variables that it created; it need not use those of the strategy's scope.
    """
    shared, others = store.shared_variables, store.per_replica_variables
    known = {id(variable) for variable in (*shared, *others)}
    fresh = [variable for variable in created if origin_of(variable).owner is strategy]
    others += [variable for variable in fresh if id(variable) not in known]
    # Of values that are held elsewhere, what is placed could be the same buffer.
    values = [*unshared_values(shared), *values_of(others)]
    set_values([*shared, *others], strategy.placement.start_new([*shared, *others], values))


def filled(
    constants: Sequence[Any], arrays: Sequence[AnyArray], per_replica: Sequence[tuple[bool, bool]]
) -> list[Any]:
    """Return values with arrays in the places that are left for them."""
    pairs = zip(arrays, per_replica, strict=True)
    values = iter([PerReplica(array, replicated) if per else array for array, (per, replicated) in pairs])
    return [next(values) if each is ARRAY else each for each in constants]


def flattened(returned: Any) -> tuple[list[jax.Array], Results]:
    """Return the arrays among the values that a function returned, and the rest."""
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
    """Return the iterators among some arguments, each once."""
    return list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, DistributedIterator)))


def constant_of(leaf: Any) -> Any:
    """Return an argument that is a constant of the program; ``ARRAY`` for one that is not."""
    return ARRAY if is_dynamic(leaf) else leaf


def is_dynamic(leaf: Any) -> bool:
    """Whether the program takes an argument as an array."""
    return isinstance(leaf, PerReplica) or is_array(leaf)


def data_of(leaf: Any) -> Any:
    """Return the array of a dynamic argument."""
    return leaf.data if isinstance(leaf, PerReplica) else leaf


def kind_of_replicas(leaf: Any) -> tuple[bool, bool]:
    """Return whether a value is a ``PerReplica``, and whether that is replicated."""
    return (True, leaf.replicated) if isinstance(leaf, PerReplica) else (False, False)


def _shape_per_replica(leaf: Any) -> jax.ShapeDtypeStruct:
    array = data_of(leaf)
    shape = array.shape[1:] if isinstance(leaf, PerReplica) else array.shape
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(array.dtype, allow_extended_dtype=True))


def _require_replicas(leaves: Sequence[Any], strategy: Any) -> None:
    """Check that values per replica are those of a strategy's.

    Raises:
        ValueError: One has a value for more or fewer replicas.
    """
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            here = getattr(leaf.data, "is_fully_addressable", True)
            expected = strategy.local_replicas if here else strategy.num_replicas_in_sync
            if len(leaf.data) != expected:
                raise ValueError(
                    f"A value of {len(leaf.data)} replicas was passed to {strategy}, which has {expected}: "
                    "it comes from another strategy."
                )
