"""``run``, ``reduce`` and ``gather`` of a strategy in a function that is being traced."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster import summary
from muster._keras import keras
from muster.data import GetNext
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.replicas._replica_context import (
    ReduceOp,
    ReplicaContext,
    ReplicaGroup,
    current_context,
    gathered,
    reduced,
    reduced_slices,
    refuse_slices,
    traced_scope,
)
from muster.distribute.replicas._values import PerReplica, ReplicaKind, is_array, is_leaf, map_values
from muster.program import IndexedSlices, Replicas


def run(strategy: ReplicaGroup, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function as one replica; with more than one its resulting arrays are ``PerReplica``."""
    _require_values("run", (args, kwargs), strategy)
    leaves = jax.tree.leaves((args, kwargs), is_leaf=is_leaf)
    kinds = [leaf.kind for leaf in leaves if isinstance(leaf, PerReplica)]
    sizes = next((each.sizes for each in kinds if each.sizes is not None), None)
    kind = ReplicaKind(any(each.replicated for each in kinds), sizes)
    args, kwargs = map_values(lambda v: v.data if isinstance(v, PerReplica) else v, (args, kwargs))
    replicas = _replicas(strategy, kind)
    with strategy.entered(ReplicaContext(strategy, replicas)):
        if replicas is None:
            return fn(*args, **kwargs)
        with traced_scope().replica_view(replicas), summary.of_replica(replicas.index):
            result = fn(*args, **kwargs)
    return map_values(lambda v: PerReplica(jnp.asarray(v), kind) if is_array(v) else v, result)


def _require_values(method: str, values: Any, strategy: ReplicaGroup) -> None:
    """Check that there is no dataset or iterator among values.

    Raises:
        TypeError: There is a dataset, or an iterator for more than one replica.
    """
    for leaf in jax.tree.leaves(values, is_leaf=is_leaf):
        if isinstance(leaf, DistributedDataset):
            raise TypeError(
                f"strategy.{method} was passed a dataset. Loop over it, and pass its batches, or results of "
                "them: `for batch in dataset: strategy.run(fn, args=(batch,))`."
            )
        if isinstance(leaf, GetNext) and strategy.num_replicas_in_sync > 1:
            raise TypeError(
                f"strategy.{method} was passed an iterator, from which replicas cannot draw one by one. Draw "
                "for all of them: `strategy.run(fn, args=(next(iterator),))`."
            )


def reduce(strategy: ReplicaGroup, op: ReduceOp, value: Any, axis: int | tuple[int, ...] | None) -> Any:
    """Reduce values over the replicas, and along axes of them if any are given."""
    _require_values("reduce", value, strategy)
    return jax.tree.map(
        lambda leaf: _reduced(strategy, op, leaf, axis),
        value,
        is_leaf=lambda leaf: is_leaf(leaf) or isinstance(leaf, IndexedSlices),
    )


def _reduced(strategy: ReplicaGroup, op: ReduceOp, value: Any, axis: int | tuple[int, ...] | None) -> Any:
    if isinstance(value, IndexedSlices):
        return _reduced_slices(strategy, op, value)
    if isinstance(value, PerReplica):
        if value.kind.shapes is not None and value.kind.sizes is None:
            _require_addable(value.kind.shapes, axis)
        return reduced(_replicas(strategy, value.kind), op, jnp.asarray(value.data), axis)
    replicas = _replicas(strategy)
    if isinstance(value, keras.Variable) and (local := traced_scope().per_replica_value(value)) is not None:
        return reduced(replicas, op, local, axis)
    is_zero = isinstance(value, int | float) and value == 0
    if strategy.num_replicas_in_sync > 1 and op is ReduceOp.SUM and not is_zero:
        raise ValueError(
            f"A non-DistributedValues value {value} cannot be reduced with the given reduce op {op}: "
            "it is the same on all replicas. Pass a value that strategy.run has returned, or reduce "
            "it by MEAN."
        )
    if value is None:
        return None
    return reduced(None, op, traced_scope().read(value), axis)


def _require_addable(shapes: Sequence[tuple[int, ...]], axis: int | tuple[int, ...] | None) -> None:
    """Check that values can be reduced over the replicas and along axes, in which their sizes may differ."""
    axes = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    left_out = {each % len(shapes[0]) for each in axes if shapes[0]}
    rest = [[size for i, size in enumerate(shape) if i not in left_out] for shape in shapes]
    number = next((number for number, other in enumerate(rest) if other != rest[0]), None)
    if number is not None:
        raise ValueError(
            f"The values of replicas differ in shape, so that they cannot be reduced: replica 0 has one of "
            f"{list(shapes[0])}, and replica {number} one of {list(shapes[number])}. Reduce along the axis "
            "in which they differ, too, or gather them."
        )


def _reduced_slices(strategy: ReplicaGroup, op: ReduceOp, slices: IndexedSlices) -> IndexedSlices:
    """Gather the rows of all replicas, or return those that all of them share."""
    parts: list[Any] = list(slices)
    of_replicas = [each for each in parts if isinstance(each, PerReplica)]
    own: list[Any] = [each.data if isinstance(each, PerReplica) else each for each in parts]
    replicas = _replicas(strategy, of_replicas[0].kind) if of_replicas else None
    return reduced_slices(replicas, op, IndexedSlices(*own))


def gather(strategy: ReplicaGroup, value: Any, axis: int) -> Any:
    """Concatenate the values of all replicas along an axis; values that they share stay as they are."""
    if isinstance(current_context(), ReplicaContext):
        raise RuntimeError(
            "tf.distribute.Strategy.gather method requires cross-replica context, use "
            "get_replica_context().all_gather() instead."
        )
    _require_values("gather", value, strategy)
    refuse_slices("gather", value)

    def gathered_leaf(leaf: Any) -> jax.Array:
        if isinstance(leaf, PerReplica):
            return gathered(_replicas(strategy, leaf.kind), jnp.asarray(leaf.data), axis, leaf.kind.shapes)
        _replicas(strategy)
        return gathered(None, traced_scope().read(leaf), axis)

    return map_values(gathered_leaf, value)


def local_results(strategy: ReplicaGroup, value: PerReplica) -> tuple[jax.Array, ...]:
    """Return the values of this process' replicas."""
    replicas, data = _replicas(strategy, value.kind._replace(replicated=False)), jnp.asarray(value.data)
    local = strategy.values_here
    if replicas is None or local == 1:
        return (data,)
    if replicas.count == local:
        return tuple(replicas.all_gather(data))
    first = replicas.index // local * local
    return tuple(jax.lax.dynamic_slice_in_dim(jnp.stack(replicas.all_gather(data)), first, local))


def require_cross_replica() -> None:
    """Raise RuntimeError in a replica context."""
    if isinstance(current_context(), ReplicaContext):
        raise RuntimeError(
            "Method requires being in cross-replica context, use get_replica_context().merge_call()"
        )


def check_agreement(variable: keras.Variable) -> None:
    """Check that replicas can agree on a variable's values.

    Raises:
        ValueError: They cannot, by its synchronization, aggregation or dtype.

    Source: tensorflow/python/distribute/distribute_utils.py, ``create_mirrored_variable`` and
        ``_validate_synchronization``.
    """
    if variable.synchronization == "none":
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please "
            f"change the `synchronization` for variable: {variable.path}"
        )
    if variable.aggregation == "mean" and not keras.backend.is_float_dtype(variable.dtype):
        raise ValueError(
            "creating distributed tf.Variable with aggregation=MEAN and a non-floating dtype is not "
            f"supported, please use a different aggregation or dtype: {variable.path} is {variable.dtype}"
        )


def _replicas(strategy: ReplicaGroup, kind: ReplicaKind = ReplicaKind()) -> Replicas | None:  # noqa: B008
    """Return the replicas in the function that is being traced; None if there is only one."""
    count = strategy.num_replicas_in_sync
    active = 1 if kind.replicated else count
    return traced_scope().replicas_of(strategy, count, active=active, sizes=kind.sizes)
