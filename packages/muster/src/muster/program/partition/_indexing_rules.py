"""Rules for operations that index: slices at computed places, gather and scatter."""

from collections.abc import Mapping

from jax import lax

from muster.program.partition._sharding import ShardedEquation, Value, axis_without
from muster.program.passes._jaxprs import type_of


def dynamic_slice(equation: ShardedEquation) -> list[Value]:
    axis, sizes = equation.axis(0), equation.param("slice_sizes")
    equation.require(axis is not None and sizes[axis] == equation.shape(0)[axis])
    starts = [equation.replicated(i) for i in range(1, len(equation.operands))]
    array = equation.shard(0, axis)  # type: ignore[arg-type]
    return equation.sharded(axis, array, *starts, slice_sizes=equation.shard_shape(sizes, axis))  # type: ignore[arg-type]


def dynamic_update_slice(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    equation.require(equation.shape(0)[axis] == equation.shape(1)[axis])
    starts = [equation.replicated(i) for i in range(2, len(equation.operands))]
    return equation.sharded(axis, equation.shard(0, axis), equation.shard(1, axis), *starts)


def gather(equation: ShardedEquation) -> list[Value]:
    """Look up rows by sharded indices in a replicated table, or by replicated indices in sharded rows."""
    numbers, sizes = equation.param("dimension_numbers"), equation.param("slice_sizes")
    rank = len(type_of(equation.eqn.outvars[0]).shape)
    by_index = [dim for dim in range(rank) if dim not in numbers.offset_dims]
    of_operand, of_indices = equation.axis(0), equation.axis(1)
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    if axes := _batching_axes(equation, paired):
        args = equation.shard(0, axes[0]), equation.shard(1, axes[1])
        return equation.sharded(by_index[axes[1]], *args)
    if of_operand is None:
        equation.require(of_indices is not None and of_indices < len(equation.shape(1)) - 1)
        return equation.sharded(by_index[of_indices], equation.replicated(0), equation.shard(1, of_indices))  # type: ignore
    complete = sizes[of_operand] == equation.shape(0)[of_operand]
    equation.require(complete and of_operand not in (*numbers.collapsed_slice_dims, *numbers.start_index_map))
    removed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    to = sorted(numbers.offset_dims)[axis_without(of_operand, removed)]
    args = equation.shard(0, of_operand), equation.replicated(1)
    return equation.sharded(int(to), *args, slice_sizes=equation.shard_shape(sizes, of_operand))


def scatter(equation: ShardedEquation) -> list[Value]:
    """Add sharded updates to a replicated table, which makes it partial, or update sharded rows."""
    numbers = equation.param("dimension_numbers")
    updates = equation.shape(2)
    by_index = [dim for dim in range(len(updates)) if dim not in numbers.update_window_dims]
    of_operand, of_indices, of_updates = (equation.axis(i) for i in range(3))
    paired = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    if axes := _batching_axes(equation, paired):
        arrays = (equation.shard(i, axis) for i, axis in enumerate((*axes, by_index[axes[1]])))
        return equation.sharded(axes[0], *arrays)
    if of_operand is None and (of_indices is not None or of_updates in by_index):
        equation.require(equation.eqn.primitive is lax.scatter_add_p)
        i = of_indices if of_indices is not None else by_index.index(of_updates)  # type: ignore[arg-type]
        equation.require(i < len(equation.shape(1)) - 1 and i not in paired.values())
        table = equation.workers.addend(equation.operands[0])  # type: ignore[arg-type]
        return equation.partial(table, equation.shard(1, i), equation.shard(2, by_index[i]))
    windows = [dim for dim in range(len(equation.shape(0))) if dim not in numbers.inserted_window_dims]
    windows = [dim for dim in windows if dim not in numbers.operand_batching_dims]
    in_updates = dict(zip(windows, sorted(numbers.update_window_dims), strict=True))
    if of_operand is None:
        of_operand = next((dim for dim, other in in_updates.items() if other == of_updates), None)
    equation.require(of_operand in in_updates and of_operand not in numbers.scatter_dims_to_operand_dims)
    axis: int = of_operand  # type: ignore[assignment]
    to = in_updates[axis]
    equation.require(updates[to] == equation.shape(0)[axis])
    return equation.sharded(axis, equation.shard(0, axis), equation.replicated(1), equation.shard(2, to))


def _batching_axes(equation: ShardedEquation, paired: Mapping[int, int]) -> tuple[int, int] | None:
    """Return the batching axes of the operand and the indices that are sharded, if any.

    Args:
        equation: The equation.
        paired: Each batching axis of the operand -> that of the indices.
    """
    of_operand, of_indices = equation.axis(0), equation.axis(1)
    if of_operand not in paired and of_indices not in paired.values():
        return None
    if of_operand is None:
        return next(pair for pair in paired.items() if pair[1] == of_indices)
    equation.require(of_operand in paired)
    return of_operand, paired[of_operand]
