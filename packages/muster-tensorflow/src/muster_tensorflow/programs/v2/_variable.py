"""``tf.Variable``, its rows, and how values of replicas combine in it."""

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster.distribute import IndexedSlices, ShardedVariable, get_strategy
from muster.extend import (
    StoredVariables,
    created_as_local,
    current_scope,
    is_per_replica,
    kept_whole,
    may_be_split,
    origin_of,
    rename,
)
from muster.program import Replicas
from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array

# Scatters that go together for any number of replicas: the others cannot be added or averaged.
_COMBINED = ("add", "subtract", "multiply", "divide")


class VariableSynchronization(enum.Enum):
    """The times at which replicas' values are combined.

    Source: tensorflow/python/ops/variables.py, ``VariableSynchronization``.
    """

    AUTO = 0  # ON_WRITE
    NONE = 1  # never, so only on one replica
    ON_WRITE = 2  # when replicas assign
    ON_READ = 3  # when it is read in the cross-replica context; until then each replica has its value


class VariableAggregation(enum.Enum):
    """The reductions by which replicas' values are combined.

    Source: tensorflow/python/ops/variables.py, ``VariableAggregationV2``.
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def _scatter(how: str) -> Callable[..., "Variable"]:
    """Make the method that changes rows: ``how`` is JAX's name, such as ``"add"`` of ``array.at[…].add``."""

    def method(
        self: "Variable", sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> "Variable":
        return self._scatter(how, (jnp.asarray(sparse_delta.indices),), sparse_delta.values)

    return method


def _scatter_nd(how: str) -> Callable[..., "Variable"]:
    """Make the method that changes slices: the last axis of ``indices`` counts along the variable's axes."""

    def method(
        self: "Variable", indices: ArrayLike, updates: ArrayLike, name: str | None = None
    ) -> "Variable":
        return self._scatter(how, _positions(indices), updates)

    return method


def _positions(indices: ArrayLike) -> tuple[jax.Array, ...]:
    return tuple(jnp.moveaxis(jnp.asarray(as_array(indices)), -1, 0))


@contextlib.contextmanager
def scopes_of(name: str | None) -> Iterator[str | None]:
    """Enter the scopes in a name, such as ``encoder`` for ``encoder/kernel``, and give what is left of it."""
    *scopes, own = [name] if name is None else name.split("/")
    with contextlib.ExitStack() as left:
        for each in filter(None, scopes):
            left.enter_context(keras.name_scope(each))
        yield own


def created_in(collections: Any) -> contextlib.AbstractContextManager[None]:
    """Let the variables that are created in a ``with`` block be local if their collections say so.

    Those are local that are in TensorFlow 1's collections of local variables or of metrics', and not in that
    of global variables, which checkpoints hold.

    Source: tensorflow/python/ops/variables.py, ``local_variables`` and ``global_variables``.
    """
    names = {collections} if isinstance(collections, str) else set(collections or ())
    is_local = names & {"local_variables", "metric_variables"} and "variables" not in names
    return created_as_local() if is_local else contextlib.nullcontext()


class _Sharding(type):
    """Makes a `ShardedVariable` of what a strategy's partitioner divides, as TensorFlow's metaclass does."""

    def __call__(
        cls,
        initial_value: ArrayLike | Callable[[], ArrayLike],
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: object = None,
        name: str | None = None,
        variable_def: None = None,
        dtype: DTypeLike = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
        *,
        collections: object = None,
        expected_shape: object = None,
        use_resource: bool | None = None,
    ) -> Any:
        options: dict[str, Any] = {"synchronization": synchronization, "aggregation": aggregation}
        if constraint is not None:
            options["constraint"] = constraint
        storage = get_strategy().placement.storage
        if isinstance(storage, StoredVariables) and may_be_split():
            initial_value = as_array(initial_value() if callable(initial_value) else initial_value, dtype)
            own = name or "Variable"
            shards = storage.split(
                own, tuple(initial_value.shape), str(jax.dtypes.canonicalize_dtype(initial_value.dtype))
            )
            if len(shards) > 1:
                with keras.name_scope(own), kept_whole():
                    variables = [
                        super(_Sharding, cls).__call__(
                            initial_value[start:stop], trainable, f"part_{part}", dtype, **options
                        )
                        for part, (start, stop) in enumerate(shards)
                    ]
                return ShardedVariable(variables, name=own)
        with created_in(collections):
            return super().__call__(initial_value, trainable, name, dtype, **options)


class Variable(keras.Variable, metaclass=_Sharding):  # type: ignore[misc]  # keras is untyped
    """A ``keras.Variable`` with TensorFlow's arguments, and with the methods that read or change some rows.

    In the code of replicas, all replicas' rows are gathered: with the aggregation SUM or MEAN they are all
    applied, for MEAN divided by the number of replicas, and with ONLY_FIRST_REPLICA those of the first.
    Under ``CentralStorageStrategy``, where there is one copy, they are applied in turn. Without an
    aggregation each replica changes its copy. Indices beyond the end change nothing.

    Under ``ParameterServerStrategy`` one whose rows a partitioner divides is a `ShardedVariable`.

    Args:
        initial_value: An array, or a function without arguments that returns one.
        trainable: Whether ``minimize`` trains it by default; None is True unless it is synchronized ON_READ.
        name: Its name in checkpoints; it may have slashes, as in scopes.
        dtype: Its dtype; None takes that of the value. Python numbers become int32 and float32, and so do
            64-bit types unless ``jax_enable_x64`` is set.
        constraint: What optimizers put the value through after each step, such as a norm's limit.
        synchronization: When the values of replicas are combined.
        aggregation: How they are combined.
        shape: Unused, as what else TensorFlow's takes is: it is that of the value.
        collections: Of TensorFlow 1. One that is local by them begins anew in each session of an Estimator.

    Raises:
        ValueError: The value is too large for int32.

    Source: tensorflow/python/ops/variables.py, ``Variable``; tensorflow/python/distribute/values.py,
        ``DistributedVariable``.
    """

    def __init__(
        self,
        initial_value: ArrayLike | Callable[[], ArrayLike],
        trainable: bool | None = None,
        name: str | None = None,
        dtype: DTypeLike = None,
        *,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> None:
        array = as_array(initial_value() if callable(initial_value) else initial_value, dtype)
        value = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        if array.dtype.kind in "iu" and not isinstance(array, jax.Array) and (value != array).any():
            raise ValueError(
                f"A variable of dtype {array.dtype} becomes one of {value.dtype}, which {initial_value!r} is "
                "too large for: set jax_enable_x64."
            )
        on_read = synchronization is VariableSynchronization.ON_READ
        with scopes_of(name) as own:
            super().__init__(
                value,
                dtype=str(value.dtype),
                trainable=not on_read if trainable is None else trainable,
                synchronization=synchronization.name.lower(),
                aggregation=aggregation.name.lower(),
                name=own,
            )
        rename(self, f"{self.path}:0")
        self.constraint = constraint

    scatter_add = _scatter("add")
    scatter_sub = _scatter("subtract")
    scatter_mul = _scatter("multiply")
    scatter_div = _scatter("divide")
    scatter_max = _scatter("max")
    scatter_min = _scatter("min")
    scatter_update = _scatter("set")
    scatter_nd_add = _scatter_nd("add")
    scatter_nd_sub = _scatter_nd("subtract")
    scatter_nd_max = _scatter_nd("max")
    scatter_nd_min = _scatter_nd("min")
    scatter_nd_update = _scatter_nd("set")

    def batch_scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> "Variable":
        """Assign rows in each entry of a batch: the leading axes of indices are those of the variable."""
        indices = jnp.asarray(sparse_delta.indices)
        batch = tuple(jnp.indices(indices.shape, sparse=True)[:-1])
        at = jnp.broadcast_arrays(*batch, indices)
        return self._scatter("set", tuple(at), sparse_delta.values)

    def sparse_read(self, indices: ArrayLike, name: str | None = None) -> jax.Array:
        """Return the rows at ``indices``."""
        return self.value[jnp.asarray(as_array(indices))]  # type: ignore[no-any-return]

    def gather_nd(self, indices: ArrayLike, name: str | None = None) -> jax.Array:
        """Return the slices at ``indices``, whose last axis counts along the variable's axes."""
        return self.value[_positions(indices)]  # type: ignore[no-any-return]

    def _scatter(self, how: str, at: tuple[jax.Array, ...], updates: ArrayLike) -> "Variable":
        """Change the elements ``at`` these indices by ``updates``, those of all replicas together.

        Raises:
            NotImplementedError: Replicas keep their own values, or cannot combine such changes.
            ValueError: The variable does not say how replicas' changes combine.
        """
        if self.synchronization == "on_read" and is_per_replica(self):
            raise NotImplementedError("Variables with `synchronization=ON_READ` doesn't support `scatter_*`.")
        parts = [(at, jnp.asarray(as_array(updates), self.dtype))]
        with contextlib.ExitStack() as agreed:
            scope = current_scope()
            made = None if scope is None else scope.assignments
            owner = origin_of(self).owner
            copies = self.aggregation == "none" and owner is not None and owner.placement.has_copies
            if made is not None and made.replicas is not None and not made.is_in_sync and not copies:
                made.synchronize(origin_of(self).kind)
                parts = self._gathered(how, *parts[0], made.replicas)
                agreed.enter_context(made.in_sync())
            value = self.value
            for indices, part in parts:
                value = getattr(value.at[indices], how)(part)
            self.assign(value)
        return self

    def _gathered(
        self, how: str, at: tuple[jax.Array, ...], updates: jax.Array, replicas: Replicas
    ) -> list[tuple[tuple[jax.Array, ...], jax.Array]]:
        """Return the changes of the replicas that count, as lists of indices and updates."""
        owner = origin_of(self).owner
        if owner is not None and owner.placement.has_copies:
            match self.aggregation:
                case "only_first_replica":
                    *at_first, first = replicas.broadcast_first([*at, updates])
                    return [(tuple(at_first), first)]
                case aggregation if how not in _COMBINED:
                    raise NotImplementedError(
                        f"scatter_{'update' if how == 'set' else how} is only supported for mirrored "
                        "variable (variable created within certain `tf.distribute.Strategy` scope) with "
                        f"NONE or `ONLY_FIRST_REPLICA` aggregation, got: {aggregation}."
                    )
                case "mean":
                    updates = updates * replicas.weight
        stacks = [replicas.all_gather(array) for array in (*at, updates)]
        return [(tuple(stack[i] for stack in stacks[:-1]), stacks[-1][i]) for i in range(replicas.active)]
