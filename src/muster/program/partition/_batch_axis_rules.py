"""What a worker has of an operation's results, by what it has of the operands. All else is refused."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.partition._batch_axis_values import Full, IndivisibleError, Partial, Rows, Value, Workers
from muster.program.passes._jaxprs import function_of

Array = Any


@dataclass(frozen=True)
class Equation:
    """An equation of a jaxpr of global shapes, and what a worker has of its operands."""

    eqn: Any
    operands: Sequence[Value]
    workers: Workers

    @property
    def has_rows(self) -> bool:
        return any(isinstance(value, Rows) for value in self.operands)

    def param(self, name: str) -> Any:
        return self.eqn.params[name]

    def shape(self, i: int) -> tuple[int, ...]:
        """Of an operand, global."""
        return tuple(self.eqn.invars[i].aval.shape)

    def axis(self, i: int) -> int | None:
        """Of whose parts this worker has one of an operand; None if that is whole."""
        value = self.operands[i]
        return value.axis if isinstance(value, Rows) else None

    def common_axis(self) -> int:
        """That of all operands that have rows."""
        axes = {value.axis for value in self.operands if isinstance(value, Rows)}
        self.require(len(axes) == 1)
        return axes.pop()

    def require(self, condition: bool) -> None:
        if not condition:
            kinds = [
                f"{v.aval.str_short()}{'' if axis is None else f' by axis {axis}'}"
                for v, axis in ((v, self.axis(i)) for i, v in enumerate(self.eqn.invars))
            ]
            raise IndivisibleError(f"{self.eqn.primitive.name} of {', '.join(kinds)}")

    def full(self, i: int) -> Array:
        """An operand that must not have rows."""
        self.require(self.axis(i) is None)
        return self.workers.full(self.operands[i])

    def part(self, i: int, axis: int) -> Array:
        """This worker's part of an operand along an axis of it."""
        value = self.operands[i]
        if isinstance(value, Rows):
            self.require(value.axis == axis)
            return value.array
        return self.workers.own(self.workers.full(value), axis)

    def local(self, sizes: Sequence[int], axis: int) -> tuple[int, ...]:
        """A global shape, for a part along an axis."""
        return (*sizes[:axis], self.workers.part(sizes[axis]), *sizes[axis + 1 :])

    def bind(self, *args: Array, **changed: Any) -> list[Array]:
        """Do the operation on other arrays, with some parameters changed."""
        results = self.eqn.primitive.bind(*args, **{**self.eqn.params, **changed})
        return list(results) if self.eqn.primitive.multiple_results else [results]

    def rows(self, axis: int, *args: Array, **changed: Any) -> list[Value]:
        """The same; all results are parts along an axis."""
        return [Rows(array, axis) for array in self.bind(*args, **changed)]

    def partial(self, *args: Array, **changed: Any) -> list[Value]:
        """The same; the workers' results add up."""
        aval = self.eqn.outvars[0].aval
        return [Partial(aval, lambda: self.bind(*args, **changed)[0])]

    def on_full(self) -> list[Value]:
        """Do the operation on whole operands."""
        arrays = [self.workers.full(value) for value in self.operands]
        given = [v for v in self.eqn.invars if not isinstance(v, jex.Literal)]
        args = [a for v, a in zip(self.eqn.invars, arrays, strict=True) if not isinstance(v, jex.Literal)]
        unique = dict(zip(given, args, strict=True))
        return [Full(a) for a in function_of([self.eqn], [*unique], self.eqn.outvars)(*unique.values())]


Rule = Callable[[Equation], list[Value]]
"""For operands of which at least one has rows."""


def derived(equation: Equation) -> list[Value]:
    """What a worker has of the results of an equation, some operands of which are not whole.

    Raises:
        IndivisibleError: There is no rule for it.
    """
    primitive = equation.eqn.primitive
    if not equation.has_rows:
        return _of_partial(equation)
    equation.require(primitive in _RULES)
    return _RULES[primitive](equation)


def _of_partial(equation: Equation) -> list[Value]:
    """Linear operations are left for the sum, if one can be had before it."""
    primitive, operands = equation.eqn.primitive, equation.operands
    places = [i for i, value in enumerate(operands) if isinstance(value, Partial)]
    if primitive in _ADDITIONS and not equation.workers.meet:
        # In a loop, where its gradients are added up, a whole value is the first worker's alone.
        shares = [equation.workers.share(value) for value in operands]  # type: ignore[arg-type]
        return equation.partial(*shares)
    if not _is_linear(equation, places):
        return equation.on_full()
    aval = equation.eqn.outvars[0].aval
    others = [None if isinstance(value, Partial) else value.array for value in operands]

    def compute(*arrays: Array) -> Array:
        args = list(others)
        for place, array in zip(places, arrays, strict=True):
            args[place] = array
        return equation.bind(*args)[0]

    return [Partial(aval, compute, *[operands[i] for i in places])]  # type: ignore[arg-type]


def _is_linear(equation: Equation, places: list[int]) -> bool:
    """Whether the result is a linear function of the operands at some places, if all others are whole."""
    eqn = equation.eqn
    if eqn.primitive is lax.concatenate_p:
        return len(places) == len(eqn.invars)
    if eqn.primitive is lax.pad_p:
        filling = eqn.invars[1]
        return places == [0] and isinstance(filling, jex.Literal) and filling.val == 0
    if eqn.primitive is lax.convert_element_type_p:
        return bool(jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.inexact))
    return places in _LINEAR.get(eqn.primitive, ()) and eqn.params.get("out_dtype") is None


_ADDITIONS = {lax.add_p, lax.sub_p, primitives.add_jaxvals_p}

# The places of the operands.
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


def _elementwise(equation: Equation) -> list[Value]:
    """Operands are of the shape of the result, or have 1 in place of some of its sizes, or are scalars."""
    axis = equation.common_axis()
    shape = equation.eqn.outvars[0].aval.shape
    args = []
    for i in range(len(equation.operands)):
        own = equation.shape(i)
        equation.require(len(own) in (0, len(shape)) and (not own or own[axis] in (1, shape[axis])))
        args.append(equation.full(i) if not own or own[axis] == 1 else equation.part(i, axis))
    return equation.rows(axis, *args)


def _each(equation: Equation) -> list[Value]:
    """Every result is its operand."""
    wholes = [v if isinstance(v, Rows) else Full(equation.workers.full(v)) for v in equation.operands]
    arrays = equation.bind(*[value.array for value in wholes])
    return [
        Rows(array, value.axis) if isinstance(value, Rows) else Full(array)
        for array, value in zip(arrays, wholes, strict=True)
    ]


def _along_others(name: str) -> Rule:
    """Operations along an axis, or axes, that a parameter names; all operands and results are of one rank."""

    def rule(equation: Equation) -> list[Value]:
        axis, along = equation.common_axis(), equation.param(name)
        equation.require(axis not in (along if isinstance(along, tuple) else (along,)))
        return equation.rows(axis, *[equation.part(i, axis) for i in range(len(equation.operands))])

    return rule


def _less(axis: int, removed: Sequence[int]) -> int:
    """Where an axis is once others are removed."""
    return axis - sum(int(each) < axis for each in removed)


def _reduce(equation: Equation) -> list[Value]:
    axis, axes = equation.common_axis(), equation.param("axes")
    array = equation.part(0, axis)
    if axis not in axes:
        return equation.rows(_less(axis, axes), array)
    if equation.eqn.primitive is lax.reduce_sum_p:
        return equation.partial(array)
    equation.require(equation.eqn.primitive in _REDUCTIONS)
    each = equation.workers.stack(equation.bind(array)[0])
    return [Full(array) for array in equation.bind(each, axes=(0,))]


_REDUCTIONS = {lax.reduce_max_p, lax.reduce_min_p, lax.reduce_and_p, lax.reduce_or_p, lax.reduce_prod_p}


def _broadcast_in_dim(equation: Equation) -> list[Value]:
    equation.require(len(equation.operands) == 1)
    axis = equation.common_axis()
    to = int(equation.param("broadcast_dimensions")[axis])
    shape = equation.param("shape")
    equation.require(shape[to] == equation.shape(0)[axis])
    return equation.rows(to, equation.part(0, axis), shape=equation.local(shape, to))


def _reshape(equation: Equation) -> list[Value]:
    """An axis of the result is divided as the operand is, if as many elements come before and after it."""
    equation.require(len(equation.operands) == 1 and equation.param("dimensions") is None)
    axis, shape, sizes = equation.common_axis(), equation.shape(0), equation.param("new_sizes")
    equation.require(math.prod(shape) > 0)
    before = math.prod(shape[:axis])
    count = equation.workers.count
    places = [i for i, n in enumerate(sizes) if math.prod(sizes[:i]) == before and n > 1 and n % count == 0]
    equation.require(bool(places))
    to = places[0]
    return equation.rows(to, equation.part(0, axis), new_sizes=equation.local(sizes, to))


def _transpose(equation: Equation) -> list[Value]:
    axis = equation.common_axis()
    return equation.rows(equation.param("permutation").index(axis), equation.part(0, axis))


def _squeeze(equation: Equation) -> list[Value]:
    axis, removed = equation.common_axis(), equation.param("dimensions")
    equation.require(axis not in removed)
    return equation.rows(_less(axis, removed), equation.part(0, axis))


def _slice(equation: Equation) -> list[Value]:
    axis, size = equation.common_axis(), equation.shape(0)[equation.common_axis()]
    start, limit, strides = (equation.param(f"{of}s") for of in ("start_indice", "limit_indice", "stride"))
    equation.require((start[axis], limit[axis]) == (0, size) and (strides is None or strides[axis] == 1))
    return equation.rows(axis, equation.part(0, axis), limit_indices=equation.local(limit, axis))


def _pad(equation: Equation) -> list[Value]:
    axis = equation.common_axis()
    equation.require(tuple(equation.param("padding_config")[axis]) == (0, 0, 0))
    return equation.rows(axis, equation.part(0, axis), equation.full(1))


def _stack(equation: Equation) -> list[Value]:
    axis = equation.common_axis()
    arrays = [equation.part(i, axis) for i in range(len(equation.operands))]
    return equation.rows(axis + (axis >= equation.param("axis")), *arrays)


def _unstack(equation: Equation) -> list[Value]:
    axis, along = equation.common_axis(), equation.param("axis")
    equation.require(axis != along)
    return equation.rows(_less(axis, (along,)), equation.part(0, axis))


def _tile(equation: Equation) -> list[Value]:
    axis, reps = equation.common_axis(), equation.param("reps")
    equation.require(len(reps) == len(equation.shape(0)) and reps[axis] == 1)
    return equation.rows(axis, equation.part(0, axis))


def _argument(equation: Equation) -> list[Value]:
    """The place of the largest or smallest element."""
    axis, axes = equation.common_axis(), equation.param("axes")
    equation.require(axis not in axes)
    return equation.rows(_less(axis, axes), equation.part(0, axis))


def _dynamic_slice(equation: Equation) -> list[Value]:
    axis, sizes = equation.axis(0), equation.param("slice_sizes")
    equation.require(axis is not None and sizes[axis] == equation.shape(0)[axis])
    starts = [equation.full(i) for i in range(1, len(equation.operands))]
    array = equation.part(0, axis)  # type: ignore[arg-type]
    return equation.rows(axis, array, *starts, slice_sizes=equation.local(sizes, axis))  # type: ignore[arg-type]


def _dynamic_update_slice(equation: Equation) -> list[Value]:
    axis = equation.common_axis()
    equation.require(equation.shape(0)[axis] == equation.shape(1)[axis])
    starts = [equation.full(i) for i in range(2, len(equation.operands))]
    return equation.rows(axis, equation.part(0, axis), equation.part(1, axis), *starts)


def _dot_general(equation: Equation) -> list[Value]:
    contracted, batch = equation.param("dimension_numbers")
    axes = equation.axis(0), equation.axis(1)
    i = 0 if axes[0] is not None else 1
    axis: int = axes[i]  # type: ignore[assignment]
    for dims in (contracted, batch):
        if axis in dims[i]:
            place = dims[i].index(axis)
            args = [equation.part(0, dims[0][place]), equation.part(1, dims[1][place])]
            return equation.partial(*args) if dims is contracted else equation.rows(place, *args)
    other = equation.full(1 - i)
    free = [
        [dim for dim in range(len(equation.shape(j))) if dim not in (*contracted[j], *batch[j])]
        for j in (0, 1)
    ]
    to = len(batch[0]) + free[i].index(axis) + (len(free[0]) if i == 1 else 0)
    own = equation.part(i, axis)
    return equation.rows(to, *((own, other) if i == 0 else (other, own)))


def _convolution(equation: Equation) -> list[Value]:
    """Of images, by the batch; or what the gradient of a kernel is, in which the batch is added up."""
    numbers = equation.param("dimension_numbers")
    (images, features, *_), (_, inputs, *_) = numbers.lhs_spec, numbers.rhs_spec
    if equation.axis(0) == images and equation.param("batch_group_count") == 1:
        return equation.rows(numbers.out_spec[0], equation.part(0, images), equation.full(1))
    axes = equation.axis(0) in (None, features) and equation.axis(1) in (None, inputs)
    equation.require(axes and equation.param("feature_group_count") == 1)
    return equation.partial(equation.part(0, features), equation.part(1, inputs))


def _windows(equation: Equation) -> list[Value]:
    """What moves windows over the other axes."""
    axis, params = equation.common_axis(), equation.eqn.params
    one = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    equation.require(all(params[name][axis] == 1 for name in one if name in params))
    equation.require(tuple(params["padding"][axis]) == (0, 0))
    return equation.rows(axis, *[equation.part(i, axis) for i in range(len(equation.operands))])


def _gather(equation: Equation) -> list[Value]:
    """A look-up: by rows of indices in a table, or in rows."""
    numbers, sizes = equation.param("dimension_numbers"), equation.param("slice_sizes")
    rank = len(equation.eqn.outvars[0].aval.shape)
    by_index = [dim for dim in range(rank) if dim not in numbers.offset_dims]
    of_rows, of_indices = equation.axis(0), equation.axis(1)
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    if of_rows in paired or of_indices in paired.values():
        i = of_indices if of_rows is None else paired.get(of_rows)
        dim = next((dim for dim, other in paired.items() if other == i), None)
        equation.require(i is not None and dim is not None)
        args = equation.part(0, dim), equation.part(1, i)  # type: ignore[arg-type]
        return equation.rows(by_index[i], *args)  # type: ignore[index]
    if of_rows is None:
        equation.require(of_indices is not None and of_indices < len(equation.shape(1)) - 1)
        return equation.rows(by_index[of_indices], equation.full(0), equation.part(1, of_indices))  # type: ignore
    taken_whole = sizes[of_rows] == equation.shape(0)[of_rows]
    equation.require(taken_whole and of_rows not in (*numbers.collapsed_slice_dims, *numbers.start_index_map))
    removed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    to = sorted(numbers.offset_dims)[_less(of_rows, removed)]
    args = equation.part(0, of_rows), equation.full(1)
    return equation.rows(int(to), *args, slice_sizes=equation.local(sizes, of_rows))


def _scatter(equation: Equation) -> list[Value]:
    """The reverse: updates of a table, where they are added, or of rows."""
    numbers = equation.param("dimension_numbers")
    updates = equation.shape(2)
    by_index = [dim for dim in range(len(updates)) if dim not in numbers.update_window_dims]
    of_rows, of_indices, of_updates = (equation.axis(i) for i in range(3))
    paired = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    if of_rows in paired or of_indices in paired.values():
        i = of_indices if of_rows is None else paired.get(of_rows)
        dim = next((dim for dim, other in paired.items() if other == i), None)
        equation.require(i is not None and dim is not None)
        args = equation.part(0, dim), equation.part(1, i), equation.part(2, by_index[i])  # type: ignore
        return equation.rows(dim, *args)  # type: ignore[arg-type]
    if of_rows is None and (of_indices is not None or of_updates in by_index):
        equation.require(equation.eqn.primitive is lax.scatter_add_p)
        i = of_indices if of_indices is not None else by_index.index(of_updates)  # type: ignore[arg-type]
        equation.require(i < len(equation.shape(1)) - 1 and i not in paired.values())
        table = equation.workers.share(equation.operands[0])  # type: ignore[arg-type]
        return equation.partial(table, equation.part(1, i), equation.part(2, by_index[i]))
    windows = [dim for dim in range(len(equation.shape(0))) if dim not in numbers.inserted_window_dims]
    windows = [dim for dim in windows if dim not in numbers.operand_batching_dims]
    in_updates = dict(zip(windows, sorted(numbers.update_window_dims), strict=True))
    if of_rows is None:
        of_rows = next((dim for dim, other in in_updates.items() if other == of_updates), None)
    equation.require(of_rows in in_updates and of_rows not in numbers.scatter_dims_to_operand_dims)
    to = in_updates[of_rows]  # type: ignore[index]
    equation.require(updates[to] == equation.shape(0)[of_rows])  # type: ignore[index]
    return equation.rows(of_rows, equation.part(0, of_rows), equation.full(1), equation.part(2, to))  # type: ignore


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
    lax.dynamic_slice_p: _dynamic_slice,
    lax.dynamic_update_slice_p: _dynamic_update_slice,
    lax.dot_general_p: _dot_general,
    lax.conv_general_dilated_p: _convolution,
    lax.reduce_window_sum_p: _windows,
    lax.reduce_window_max_p: _windows,
    lax.reduce_window_min_p: _windows,
    lax.select_and_scatter_add_p: _windows,
    lax.gather_p: _gather,
    lax.scatter_p: _scatter,
    lax.scatter_add_p: _scatter,
}
