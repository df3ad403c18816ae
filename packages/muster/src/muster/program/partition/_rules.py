"""Rules by which a worker computes an operation from its shards. Operations without a rule are refused."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from muster import cpu
from muster.program.partition._indexing_rules import dynamic_slice, dynamic_update_slice, gather, scatter
from muster.program.partition._sharding import (
    Partial,
    Replicated,
    Rule,
    Sharded,
    ShardedEquation,
    Value,
    axis_without,
)
from muster.program.passes._jaxprs import ELEMENTWISE, named, type_of
from muster.program.passes._rows import exchange_rows_p, own_sums


def apply_rule(equation: ShardedEquation) -> list[Value]:
    """Compute the results of an equation, some operands of which are sharded or partial.

    Raises:
        IndivisibleError: There is no rule for it.
    """
    primitive = equation.eqn.primitive
    if not equation.has_shards:
        return _of_partial(equation)
    equation.require(primitive in _RULES)
    return _RULES[primitive](equation)


def _of_partial(equation: ShardedEquation) -> list[Value]:
    """Apply a linear operation to the addends of partial operands, any other one to their sums."""
    primitive, operands = equation.eqn.primitive, equation.operands
    places = [i for i, value in enumerate(operands) if isinstance(value, Partial)]
    if primitive in _ADDITIONS and not equation.workers.can_reduce:
        # In a loop, which accumulates gradients, a replicated value is the addend of the first worker.
        addends = [equation.workers.addend(value) for value in operands]  # type: ignore[arg-type]
        return equation.partial(*addends)
    if not _is_linear(equation, places):
        return equation.on_replicated()
    aval = type_of(equation.eqn.outvars[0])
    others = {i: value.array for i, value in enumerate(operands) if not isinstance(value, Partial)}

    def compute(*arrays: jax.Array) -> jax.Array:
        args = others | dict(zip(places, arrays, strict=True))
        return equation.bind(*(args[i] for i in range(len(operands))))[0]

    return [Partial(aval, compute, *[operands[i] for i in places])]  # type: ignore[arg-type]


def _is_linear(equation: ShardedEquation, places: list[int]) -> bool:
    """Return whether the result is linear in the operands at some places, all others replicated."""
    eqn = equation.eqn
    if eqn.primitive is lax.concatenate_p:
        return len(places) == len(eqn.invars)
    if eqn.primitive is lax.pad_p:
        filling = eqn.invars[1]
        return places == [0] and isinstance(filling, jex.Literal) and filling.val == 0
    if eqn.primitive is lax.convert_element_type_p:
        return bool(jnp.issubdtype(type_of(eqn.outvars[0]).dtype, jnp.inexact))
    if eqn.primitive is lax.div_p and not jnp.issubdtype(type_of(eqn.outvars[0]).dtype, jnp.inexact):
        return False  # of integers it rounds
    return places in _LINEAR.get(eqn.primitive, ()) and eqn.params.get("out_dtype") is None


_ADDITIONS = named("add sub add_jaxvals")
# Primitive -> the places of the operands in which it is linear.
_LINEAR: Mapping[jex.Primitive, Sequence[list[int]]] = {
    **dict.fromkeys(_ADDITIONS, [[0, 1]]),
    **dict.fromkeys(named("mul dot_general conv_general_dilated"), [[0], [1]]),
    **dict.fromkeys(
        named("neg div copy reduce_sum broadcast_in_dim reshape transpose squeeze slice rev"), [[0]]
    ),
}


def _elementwise(equation: ShardedEquation) -> list[Value]:
    """Compute an elementwise operation; operands may be scalars, or have size 1 where the result has more."""
    axis = equation.common_axis()
    shape = type_of(equation.eqn.outvars[0]).shape
    args = []
    for i in range(len(equation.operands)):
        sizes = equation.shape(i)
        equation.require(len(sizes) in (0, len(shape)) and (not sizes or sizes[axis] in (1, shape[axis])))
        args.append(equation.replicated(i) if not sizes or sizes[axis] == 1 else equation.shard(i, axis))
    return equation.sharded(axis, *args)


def _each(equation: ShardedEquation) -> list[Value]:
    """Compute an operation of which each result equals its operand."""
    values = [equation.workers.reduced(value) for value in equation.operands]
    arrays = equation.bind(*[value.array for value in values])
    return [
        Sharded(array, value.axis) if isinstance(value, Sharded) else Replicated(array)
        for array, value in zip(arrays, values, strict=True)
    ]


def _along_others(name: str, *, removes: bool = False) -> Rule:
    """Make a rule for operations along (or that remove) the axes that a parameter names; ranks are equal."""

    def rule(equation: ShardedEquation) -> list[Value]:
        axis, along = equation.common_axis(), equation.param(name)
        axes = along if isinstance(along, tuple) else (along,)
        equation.require(axis not in axes)
        return equation.sharded(axis_without(axis, axes) if removes else axis, *equation.shards(axis))

    return rule


def _reduce(equation: ShardedEquation) -> list[Value]:
    axis, axes = equation.common_axis(), equation.param("axes")
    array = equation.shard(0, axis)
    if axis not in axes:
        return equation.sharded(axis_without(axis, axes), array)
    if equation.eqn.primitive is lax.reduce_sum_p:
        return equation.partial(array)
    gathered = equation.workers.all_gather(equation.bind(array)[0])
    return [Replicated(array) for array in equation.bind(gathered, axes=(0,))]


def _broadcast_in_dim(equation: ShardedEquation) -> list[Value]:
    equation.require(len(equation.operands) == 1)
    axis = equation.common_axis()
    to = int(equation.param("broadcast_dimensions")[axis])
    shape = equation.param("shape")
    equation.require(shape[to] == equation.shape(0)[axis])
    return equation.sharded(to, equation.shard(0, axis), shape=equation.shard_shape(shape, to))


def _reshape(equation: ShardedEquation) -> list[Value]:
    """Shard the axis of the result that has as many elements before and after it as the operand's."""
    equation.require(len(equation.operands) == 1 and equation.param("dimensions") is None)
    axis, shape, sizes = equation.common_axis(), equation.shape(0), equation.param("new_sizes")
    equation.require(math.prod(shape) > 0)
    before = math.prod(shape[:axis])
    share = equation.workers.can_share
    places = [i for i, n in enumerate(sizes) if math.prod(sizes[:i]) == before and n > 1 and share(n)]
    equation.require(bool(places))
    to = places[0]
    return equation.sharded(to, equation.shard(0, axis), new_sizes=equation.shard_shape(sizes, to))


def _transpose(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    return equation.sharded(equation.param("permutation").index(axis), equation.shard(0, axis))


def _slice(equation: ShardedEquation) -> list[Value]:
    axis, size = equation.common_axis(), equation.shape(0)[equation.common_axis()]
    start, limit, strides = map(equation.param, ("start_indices", "limit_indices", "strides"))
    equation.require((start[axis], limit[axis]) == (0, size) and (strides is None or strides[axis] == 1))
    return equation.sharded(axis, equation.shard(0, axis), limit_indices=equation.shard_shape(limit, axis))


def _pad(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    equation.require(tuple(equation.param("padding_config")[axis]) == (0, 0, 0))
    return equation.sharded(axis, equation.shard(0, axis), equation.replicated(1))


def _stack(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    return equation.sharded(axis + (axis >= equation.param("axis")), *equation.shards(axis))


def _tile(equation: ShardedEquation) -> list[Value]:
    axis, reps = equation.common_axis(), equation.param("reps")
    equation.require(len(reps) == len(equation.shape(0)) and reps[axis] == 1)
    return equation.sharded(axis, equation.shard(0, axis))


def _dot_general(equation: ShardedEquation) -> list[Value]:
    contracted, batch = equation.param("dimension_numbers")
    axes = equation.axis(0), equation.axis(1)
    i = 0 if axes[0] is not None else 1
    axis: int = axes[i]  # type: ignore[assignment]
    for dims in (contracted, batch):
        if axis in dims[i]:
            place = dims[i].index(axis)
            args = [equation.shard(0, dims[0][place]), equation.shard(1, dims[1][place])]
            return equation.partial(*args) if dims is contracted else equation.sharded(place, *args)
    other = equation.replicated(1 - i)
    free = [
        [dim for dim in range(len(equation.shape(j))) if dim not in (*contracted[j], *batch[j])]
        for j in (0, 1)
    ]
    to = len(batch[0]) + free[i].index(axis) + (len(free[0]) if i == 1 else 0)
    shard = equation.shard(i, axis)
    return equation.sharded(to, *((shard, other) if i == 0 else (other, shard)))


def _convolution(equation: ShardedEquation) -> list[Value]:
    """Convolve sharded images; or compute the gradient of a kernel, which adds over the batch."""
    numbers = equation.param("dimension_numbers")
    (images, features, *_), (_, inputs, *_) = numbers.lhs_spec, numbers.rhs_spec
    if equation.axis(0) == images and equation.param("batch_group_count") == 1:
        return equation.sharded(numbers.out_spec[0], equation.shard(0, images), equation.replicated(1))
    axes = equation.axis(0) in (None, features) and equation.axis(1) in (None, inputs)
    equation.require(axes and equation.param("feature_group_count") == 1)
    return equation.partial(equation.shard(0, features), equation.shard(1, inputs))


def _windows(equation: ShardedEquation) -> list[Value]:
    """Move windows over axes that are not sharded."""
    axis, params = equation.common_axis(), equation.eqn.params
    one = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    equation.require(all(params[name][axis] == 1 for name in one if name in params))
    equation.require(tuple(params["padding"][axis]) == (0, 0))
    return equation.sharded(axis, *equation.shards(axis))


def _exchange_rows(equation: ShardedEquation) -> list[Value]:
    """Let all workers have the rows of a gradient that each of them has looked up."""
    workers, operands = equation.workers, equation.operands
    if all(isinstance(value, Sharded) and value.axis == 0 for value in operands):
        own = own_sums([value.array for value in operands], **equation.eqn.params)  # type: ignore[union-attr]
        return [Replicated(workers.unsharded(Sharded(each, 0))) for each in own]
    whole = [
        workers.unsharded(value) if isinstance(value, Sharded) else workers.replicated(value)
        for value in operands
    ]
    return [Replicated(jnp.concatenate(whole[place::2])) for place in range(2)]


def _kernel(equation: ShardedEquation) -> list[Value]:
    """Compute a kernel of ``muster.cpu`` for some of the batch."""
    axes, of_results = equation.param("batch_axes")
    shards = [
        equation.replicated(i) if axis is None else equation.shard(i, axis) for i, axis in enumerate(axes)
    ]
    found = zip(equation.eqn.outvars, equation.bind(*shards), of_results, strict=True)
    return [
        Partial(type_of(v), partial(lambda array: array, array)) if axis is None else Sharded(array, axis)
        for v, array, axis in found
    ]


_RULES: Mapping[jex.Primitive, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    lax.optimization_barrier_p: _each,
    exchange_rows_p: _exchange_rows,
    cpu.kernel_p: _kernel,
    **dict.fromkeys(named("reduce_sum reduce_max reduce_min reduce_and reduce_or reduce_prod"), _reduce),
    **dict.fromkeys(named("argmax argmin"), _along_others("axes", removes=True)),
    lax.broadcast_in_dim_p: _broadcast_in_dim,
    lax.reshape_p: _reshape,
    lax.transpose_p: _transpose,
    lax.squeeze_p: _along_others("dimensions", removes=True),
    lax.slice_p: _slice,
    lax.pad_p: _pad,
    lax.rev_p: _along_others("dimensions"),
    **dict.fromkeys(named("concatenate sort"), _along_others("dimension")),
    lax.split_p: _along_others("axis"),
    **dict.fromkeys(named("top_k cumsum cumprod cummax cummin cumlogsumexp"), _along_others("axis")),
    lax.stack_p: _stack,
    lax.unstack_p: _along_others("axis", removes=True),
    lax.tile_p: _tile,
    lax.dynamic_slice_p: dynamic_slice,
    lax.dynamic_update_slice_p: dynamic_update_slice,
    lax.dot_general_p: _dot_general,
    lax.conv_general_dilated_p: _convolution,
    **dict.fromkeys(named("reduce_window_sum reduce_window_max reduce_window_min"), _windows),
    lax.select_and_scatter_add_p: _windows,
    lax.gather_p: gather,
    **dict.fromkeys(named("scatter scatter_add"), scatter),
}
