"""Rules by which a worker computes an operation from its shards. Operations without a rule are refused."""

import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.partition._indexing_rules import dynamic_slice, dynamic_update_slice, gather, scatter
from muster.program.partition._product_rules import convolution, dot_general, windows
from muster.program.partition._sharded_equation import Rule, ShardedEquation, axis_without
from muster.program.partition._sharding import Partial, Replicated, Sharded, Value
from muster.program.passes._jaxprs import type_of


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
    return places in _LINEAR.get(eqn.primitive, ()) and eqn.params.get("out_dtype") is None


_ADDITIONS = {lax.add_p, lax.sub_p, primitives.add_jaxvals_p}

# Primitive -> the places of the operands in which it is linear.
_LINEAR: Mapping[jex.Primitive, Sequence[list[int]]] = {
    lax.add_p: [[0, 1]],
    primitives.add_jaxvals_p: [[0, 1]],
    lax.sub_p: [[0, 1]],
    lax.neg_p: [[0]],
    lax.mul_p: [[0], [1]],
    lax.div_p: [[0]],
    primitives.copy_p: [[0]],
    lax.reshape_p: [[0]],
    lax.transpose_p: [[0]],
    lax.squeeze_p: [[0]],
    lax.broadcast_in_dim_p: [[0]],
    lax.reduce_sum_p: [[0]],
    lax.slice_p: [[0]],
    lax.rev_p: [[0]],
    lax.dot_general_p: [[0], [1]],
    lax.conv_general_dilated_p: [[0], [1]],
}


def _elementwise(equation: ShardedEquation) -> list[Value]:
    """Operands have the shape of the result, or 1 in place of some of its sizes, or are scalars."""
    axis = equation.common_axis()
    shape = type_of(equation.eqn.outvars[0]).shape
    args = []
    for i in range(len(equation.operands)):
        sizes = equation.shape(i)
        equation.require(len(sizes) in (0, len(shape)) and (not sizes or sizes[axis] in (1, shape[axis])))
        args.append(equation.replicated(i) if not sizes or sizes[axis] == 1 else equation.shard(i, axis))
    return equation.sharded(axis, *args)


def _each(equation: ShardedEquation) -> list[Value]:
    """Each result equals its operand."""
    workers, operands = equation.workers, equation.operands
    values = [v if isinstance(v, Sharded) else Replicated(workers.replicated(v)) for v in operands]
    arrays = equation.bind(*[value.array for value in values])
    return [
        Sharded(array, value.axis) if isinstance(value, Sharded) else Replicated(array)
        for array, value in zip(arrays, values, strict=True)
    ]


def _along_others(name: str) -> Rule:
    """Make a rule for operations along the axes that a parameter names; all ranks are equal."""

    def rule(equation: ShardedEquation) -> list[Value]:
        axis, along = equation.common_axis(), equation.param(name)
        equation.require(axis not in (along if isinstance(along, tuple) else (along,)))
        return equation.sharded(axis, *[equation.shard(i, axis) for i in range(len(equation.operands))])

    return rule


def _reduce(equation: ShardedEquation) -> list[Value]:
    axis, axes = equation.common_axis(), equation.param("axes")
    array = equation.shard(0, axis)
    if axis not in axes:
        return equation.sharded(axis_without(axis, axes), array)
    if equation.eqn.primitive is lax.reduce_sum_p:
        return equation.partial(array)
    equation.require(equation.eqn.primitive in _REDUCTIONS)
    gathered = equation.workers.all_gather(equation.bind(array)[0])
    return [Replicated(array) for array in equation.bind(gathered, axes=(0,))]


_REDUCTIONS = {lax.reduce_max_p, lax.reduce_min_p, lax.reduce_and_p, lax.reduce_or_p, lax.reduce_prod_p}


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
    count = equation.workers.count
    places = [i for i, n in enumerate(sizes) if math.prod(sizes[:i]) == before and n > 1 and n % count == 0]
    equation.require(bool(places))
    to = places[0]
    return equation.sharded(to, equation.shard(0, axis), new_sizes=equation.shard_shape(sizes, to))


def _transpose(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    return equation.sharded(equation.param("permutation").index(axis), equation.shard(0, axis))


def _squeeze(equation: ShardedEquation) -> list[Value]:
    axis, removed = equation.common_axis(), equation.param("dimensions")
    equation.require(axis not in removed)
    return equation.sharded(axis_without(axis, removed), equation.shard(0, axis))


def _slice(equation: ShardedEquation) -> list[Value]:
    axis, size = equation.common_axis(), equation.shape(0)[equation.common_axis()]
    start, limit, strides = (equation.param(f"{of}s") for of in ("start_indice", "limit_indice", "stride"))
    equation.require((start[axis], limit[axis]) == (0, size) and (strides is None or strides[axis] == 1))
    return equation.sharded(axis, equation.shard(0, axis), limit_indices=equation.shard_shape(limit, axis))


def _pad(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    equation.require(tuple(equation.param("padding_config")[axis]) == (0, 0, 0))
    return equation.sharded(axis, equation.shard(0, axis), equation.replicated(1))


def _stack(equation: ShardedEquation) -> list[Value]:
    axis = equation.common_axis()
    arrays = [equation.shard(i, axis) for i in range(len(equation.operands))]
    return equation.sharded(axis + (axis >= equation.param("axis")), *arrays)


def _unstack(equation: ShardedEquation) -> list[Value]:
    axis, along = equation.common_axis(), equation.param("axis")
    equation.require(axis != along)
    return equation.sharded(axis_without(axis, (along,)), equation.shard(0, axis))


def _tile(equation: ShardedEquation) -> list[Value]:
    axis, reps = equation.common_axis(), equation.param("reps")
    equation.require(len(reps) == len(equation.shape(0)) and reps[axis] == 1)
    return equation.sharded(axis, equation.shard(0, axis))


def _argument(equation: ShardedEquation) -> list[Value]:
    """The index of the largest or smallest element."""
    axis, axes = equation.common_axis(), equation.param("axes")
    equation.require(axis not in axes)
    return equation.sharded(axis_without(axis, axes), equation.shard(0, axis))


_ELEMENTWISE = (
    "abs acos acosh add and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp clz "
    "convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag "
    "integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or "
    "population_count pow real reduce_precision rem round rsqrt select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh "
    "xor"
)

_RULES: Mapping[jex.Primitive, Rule] = {
    **{getattr(primitives, f"{name}_p"): _elementwise for name in _ELEMENTWISE.split()},
    primitives.add_jaxvals_p: _elementwise,
    lax.optimization_barrier_p: _each,
    lax.reduce_sum_p: _reduce,
    **dict.fromkeys(_REDUCTIONS, _reduce),
    lax.argmax_p: _argument,
    lax.argmin_p: _argument,
    lax.broadcast_in_dim_p: _broadcast_in_dim,
    lax.reshape_p: _reshape,
    lax.transpose_p: _transpose,
    lax.squeeze_p: _squeeze,
    lax.slice_p: _slice,
    lax.pad_p: _pad,
    lax.rev_p: _along_others("dimensions"),
    lax.concatenate_p: _along_others("dimension"),
    lax.split_p: _along_others("axis"),
    lax.sort_p: _along_others("dimension"),
    lax.top_k_p: _along_others("axis"),
    lax.cumsum_p: _along_others("axis"),
    lax.cumprod_p: _along_others("axis"),
    lax.cummax_p: _along_others("axis"),
    lax.cummin_p: _along_others("axis"),
    lax.cumlogsumexp_p: _along_others("axis"),
    lax.stack_p: _stack,
    lax.unstack_p: _unstack,
    lax.tile_p: _tile,
    lax.dynamic_slice_p: dynamic_slice,
    lax.dynamic_update_slice_p: dynamic_update_slice,
    lax.dot_general_p: dot_general,
    lax.conv_general_dilated_p: convolution,
    lax.reduce_window_sum_p: windows,
    lax.reduce_window_max_p: windows,
    lax.reduce_window_min_p: windows,
    lax.select_and_scatter_add_p: windows,
    lax.gather_p: gather,
    lax.scatter_p: scatter,
    lax.scatter_add_p: scatter,
}
