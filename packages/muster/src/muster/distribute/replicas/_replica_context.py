"""The replica context: the strategy as seen by code that runs once per replica."""

import contextlib
import enum
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster.distribute.replicas._values import PerReplica, ReplicaKind, by_numbers, is_key, map_values
from muster.program import IndexedSlices, Replicas, require_joinable
from muster.program.trace import FunctionScope
from muster.program.variables import current_scope


class ReplicaGroup(Protocol):
    """The part of a strategy that the code of replicas uses."""

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas over all workers."""

    @property
    def values_here(self) -> int:
        """The number of replicas whose values this process has."""

    def entered(self, context: "Context") -> contextlib.AbstractContextManager[None]:
        """Run code as this strategy's, in a replica context or in the cross-replica one."""


class ReduceOp(enum.Enum):
    """The operation that reduces the values of replicas to one.

    Source: tensorflow/python/distribute/reduce_util.py, ``ReduceOp``.
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, op: "ReduceOp | str") -> "ReduceOp":
        """Convert a member, or the name of one in upper or lower case, to a member.

        Raises:
            ValueError: There is no such operation.
        """
        if isinstance(op, cls):
            return op
        if isinstance(op, str) and op.upper() in cls.__members__:
            return cls[op.upper()]
        raise ValueError(f"A reduce op must be one of SUM and MEAN, got {op!r}.")

    @classmethod
    def from_variable_aggregation(cls, aggregation: "enum.Enum | str") -> "ReduceOp":
        """Convert the aggregation of a variable, ``"sum"`` or ``"mean"``, to the operation that does so.

        Args:
            aggregation: The string, as Keras has it, or a member of TensorFlow's ``VariableAggregation``.

        Raises:
            ValueError: It is another aggregation.

        Source: tensorflow/python/distribute/reduce_util.py, ``ReduceOp.from_variable_aggregation``.
        """
        name = aggregation.name if isinstance(aggregation, enum.Enum) else aggregation
        if isinstance(name, str) and name.upper() in cls.__members__:
            return cls[name.upper()]
        raise ValueError(
            f"Could not convert from `tf.VariableAggregation` {aggregation} to `tf.distribute.ReduceOp` "
            "type: the aggregations SUM and MEAN have one."
        )


class ReplicaContext:
    """One replica's view of the others, in ``strategy.run``.

    Args:
        strategy: The strategy.
        replicas: The replicas of the step; None if there is only one.

    Source: tensorflow/python/distribute/distribute_lib.py, ``ReplicaContext``.
    """

    def __init__(self, strategy: ReplicaGroup, replicas: Replicas | None) -> None:
        self.strategy = strategy
        self._replicas = replicas

    @property
    def replica_id_in_sync_group(self) -> jax.Array | int:
        """The number of this replica, from 0: int32, shape (); a plain number if there is only one."""
        if self._replicas is None:
            return 0
        index: jax.Array = _read(self._replicas.index)
        return index.astype(jnp.int32)

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas over all workers."""
        return self.strategy.num_replicas_in_sync

    def all_reduce(self, reduce_op: ReduceOp | str, value: Any, options: Any = None) -> Any:
        """All-reduce: sum or average the values of all replicas; differentiable.

        Args:
            reduce_op: SUM or MEAN.
            value: Arrays in a nested structure, per replica; of the same shapes and dtypes on all replicas.
                Of `IndexedSlices`, the result has the rows of all replicas.
            options: Accepted for TensorFlow's programs.

        Returns:
            Arrays of the same structure and shapes, equal on all replicas.

        Raises:
            TypeError: A value is a random key.
            ValueError: There is no such operation.
        """
        op = ReduceOp.of(reduce_op)
        leaves, structure = jax.tree.flatten(value, is_leaf=_is_slices)
        arrays = [jnp.asarray(_read(leaf)) for leaf in leaves if not _is_slices(leaf)]
        if any(map(is_key, arrays)):
            raise TypeError("Random keys cannot be reduced: all_gather them, or draw from them first.")
        replicas = self._replicas
        if replicas is not None:
            arrays = replicas.mean(arrays) if op is ReduceOp.MEAN else replicas.sum(arrays)
        dense = iter(arrays)
        results = [reduced_slices(replicas, op, leaf) if _is_slices(leaf) else next(dense) for leaf in leaves]
        return jax.tree.unflatten(structure, results)

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """All-gather: concatenate the values of all replicas along an axis, in the order of the replicas.

        Args:
            value: Arrays of rank one at least in a nested structure, per replica.
            axis: The axis, from 0.
            options: Accepted for TensorFlow's programs.

        Returns:
            Arrays in the same structure, equal on all replicas.

        Raises:
            NotImplementedError: There are `IndexedSlices`.
            ValueError: An array has no such axis.
        """
        refuse_slices("all_gather", value)
        return jax.tree.map(lambda leaf: gathered(self._replicas, jnp.asarray(_read(leaf)), axis), value)

    def merge_call(
        self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function once for all replicas, in the cross-replica context.

        Args:
            merge_fn: Called with the strategy and the arguments, as ``PerReplica``.
            args: Positional arguments of this replica.
            kwargs: Keyword arguments of this replica.

        Returns:
            The results for this replica.
        """
        replicas = self._replicas
        if replicas is None:
            with entered(CROSS_REPLICA):
                return merge_fn(self.strategy, *args, **(kwargs or {}))
        scope = traced_scope()
        wrapped = map_values(lambda v: _wrapped(v, replicas), (tuple(args), kwargs or {}))
        with entered(CROSS_REPLICA), scope.cross_replica_view():
            result = merge_fn(self.strategy, *wrapped[0], **wrapped[1])
        return map_values(lambda v: v.data if isinstance(v, PerReplica) else v, result)


@dataclass(frozen=True)
class CrossReplicaContext:
    """The context of code that runs once for all replicas.

    Attributes:
        left_by: Leaves it, if it was entered without a ``with`` block.
    """

    left_by: contextlib.ExitStack | None = field(default=None, compare=False)


CROSS_REPLICA = CrossReplicaContext()
Context = ReplicaContext | CrossReplicaContext
_CONTEXT: ContextVar[Context | None] = ContextVar("muster_replica_context", default=None)


@contextlib.contextmanager
def entered(context: Context) -> Iterator[None]:
    """Run code in a replica context, or in the cross-replica one."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def current_context() -> Context | None:
    """Return the innermost context that was entered."""
    return _CONTEXT.get()


def _read(value: Any) -> Any:
    scope = current_scope()
    return value if scope is None else scope.read(value)


def _wrapped(value: Any, replicas: Replicas) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        value = jnp.asarray(value)  # a constant that each replica has made, as a front end's are
    if not isinstance(value, jax.Array):
        return value
    sizes = None if replicas.shares is None else replicas.shares.sizes
    return PerReplica(value, ReplicaKind(replicas.active < replicas.count, sizes))


def reduced(
    replicas: Replicas | None, op: ReduceOp, value: jax.Array, axis: int | tuple[int, ...] | None
) -> jax.Array:
    """Reduce a value over the replicas, and along axes of it if any are given."""
    if is_key(value):
        raise TypeError("Random keys cannot be reduced: gather them, or draw from them first.")
    if replicas is None and axis is None:
        return value
    if jnp.issubdtype(value.dtype, jnp.bool_):
        raise TypeError("Values of dtype bool cannot be reduced. Cast them to numbers first.")
    axes = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for each in axes:
        if not -value.ndim <= each < value.ndim:
            raise ValueError(
                f"Invalid reduction dimension {each} for input with {value.ndim} dimensions: "
                f"shape {tuple(value.shape)}."
            )
    elements = math.prod(value.shape[each] for each in axes)
    total = jnp.sum(value, axes) if axes else value
    if op is ReduceOp.SUM:
        return total if replicas is None else replicas.sum([total])[0]
    if replicas is None:
        return total / elements
    if replicas.active == replicas.count and (replicas.shares is not None or axes):
        counts = replicas.element_counts(value, axes)
        if len(set(counts)) > 1:
            return replicas.sum([total])[0] / sum(counts)
    if replicas.shares is not None:
        return replicas.mean([total / elements])[0]
    return replicas.sum([total])[0] / (elements * replicas.active)


def gathered(
    replicas: Replicas | None,
    value: jax.Array,
    axis: int,
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> jax.Array:
    """Concatenate the values of all replicas along an axis; of a single replica, return its value.

    Args:
        replicas: The replicas; None for a single one.
        value: This replica's.
        axis: The axis, from 0.
        shapes: The shapes of all replicas' values, if they are known to differ.

    Raises:
        ValueError: The value has no such axis, or the values differ elsewhere than along it.
    """
    if replicas is None:
        return value
    if value.ndim == 0:
        raise ValueError("Values of rank 0 cannot be gathered along an axis: expand their dimensions.")
    if not 0 <= axis < value.ndim:
        raise ValueError(f"`axis` = {axis} is out of range for values of rank {value.ndim}.")
    if shapes is not None:
        require_joinable(shapes, axis)
    lengths = None if shapes is None else [shape[axis] for shape in shapes]
    values: jax.Array = by_numbers(
        lambda numbers: jnp.concatenate(replicas.all_gather(numbers, axis, lengths), axis), value
    )
    return values


def reduced_slices(replicas: Replicas | None, op: ReduceOp, slices: IndexedSlices) -> IndexedSlices:
    """Gather the rows of all replicas; for MEAN, times the weight of each replica."""
    values, indices = (jnp.asarray(_read(each)) for each in slices[:2])
    if replicas is not None and op is ReduceOp.MEAN:
        values = values * replicas.weight
    return slices._replace(values=gathered(replicas, values, 0), indices=gathered(replicas, indices, 0))


def refuse_slices(method: str, value: Any) -> None:
    """Raise NotImplementedError if there are `IndexedSlices` in a nested structure."""
    if any(map(_is_slices, jax.tree.leaves(value, is_leaf=_is_slices))):
        raise NotImplementedError(
            f"{method} does not support IndexedSlices: reduce them, or gather their values and indices."
        )


def _is_slices(value: Any) -> bool:
    return isinstance(value, IndexedSlices)


def refuse_in_program(action: str, instead: str) -> None:
    """Refuse to read batches while a function is traced: they would become constants of its program.

    Args:
        action: What reads them, as the subject of the message.
        instead: What to do instead, for the message.

    Raises:
        TraceError: A function is being traced.
    """
    if current_scope() is not None:
        raise TraceError(
            f"{action} in a traced function would give the same batches at every call: they are read while "
            f"it is traced. {instead}."
        )


def traced_scope() -> FunctionScope:
    """Return the scope of the function that is being traced.

    Raises:
        TraceError: It is a model_fn, which the Estimator runs on each replica.
    """
    scope = current_scope()
    if not isinstance(scope, FunctionScope):
        raise TraceError(
            "run, reduce and gather of a strategy are for functions and custom loops. A model_fn is run on "
            "each replica by the Estimator, with the strategy that its RunConfig names."
        )
    return scope
