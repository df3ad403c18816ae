"""Compute with the values of ragged tensors: arithmetic on each value, and reductions."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._arrays import Array, as_array
from muster_tensorflow.library.ops._eager_values import shown_part
from muster_tensorflow.library.ops._operation import arithmetic, on_rows
from muster_tensorflow.library.ops._patched_classes import get_shape
from muster_tensorflow.library.ops.arrays import _shape
from muster_tensorflow.library.ops.arrays._shape import concat, expand_dims, tile
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.library.ops.math import _math, _special
from muster_tensorflow.library.ops.nn import _layers_of_nn, _nn
from muster_tensorflow.library.ops.ragged._ragged_methods import RaggedMethods
from muster_tensorflow.library.ops.text import _strings
from muster_tensorflow.patches import change

# Their first argument, or their first two or three, are operands, which have one shape or broadcast to it.
_OF_ONE = {
    _math: "abs acos asin atan cast ceil cos cosh erf exp expm1 floor is_finite is_inf is_nan lgamma log "
    "log1p log_sigmoid logical_not negative ones_like reciprocal round rsqrt sigmoid sign sin sinh sqrt "
    "square tan tanh zeros_like",
    _nn: "elu gelu leaky_relu relu relu6 selu silu softplus softsign",
    _layers_of_nn: "dropout",
    _shape: "identity one_hot stop_gradient",
    _special: "acosh angle asinh atanh bitcast conj digamma erfc erfcinv erfinv imag invert ndtri real rint",
    _strings: "as_string",
}
_OF_TWO = {
    _math: "add atan2 divide divide_no_nan equal floordiv floormod greater greater_equal less less_equal "
    "logical_and logical_or logical_xor maximum minimum multiply multiply_no_nan not_equal pow "
    "squared_difference subtract",
    _special: "bitwise_and bitwise_or bitwise_xor complex igamma igammac left_shift nextafter right_shift "
    "scalar_mul xdivy xlogy zeta",
}
_OF_THREE = {_math: "clip_by_value where"}


def with_structure(values: RaggedTensor, like: RaggedTensor) -> bool:
    """Return whether two ragged tensors have rows of the same lengths."""
    one, other = values.plain_splits, like.plain_splits
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _elementwise(function: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """Make an operation on the values of ragged tensors from one on arrays."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        names = list(bound.arguments)[:operands]
        given = [bound.arguments[name] for name in names]
        if any(isinstance(each, SparseTensor) for each in given):
            return of_sparse(function, bound, names[0])
        if operands > 2 and all(each is None for each in given[1:]):  # where(condition)
            return _places(given[0])
        *flat, ragged = _flattened(given)
        bound.arguments.update(zip(names, flat, strict=True))
        return ragged.with_flat_values(function(*bound.args, **bound.kwargs))

    return call


def of_sparse(function: Callable[..., Any], bound: inspect.BoundArguments, name: str) -> Any:
    """Return the result of an operation on the values of a sparse tensor.

    Raises:
        TypeError: The sparse tensor is not its first operand, or another operand has axes.
    """
    sparse = bound.arguments[name]
    others = [value for key, value in bound.arguments.items() if key != name]
    if not isinstance(sparse, SparseTensor) or any(isinstance(each, SparseTensor) for each in others):
        raise TypeError(
            f"{function.__name__} takes no such sparse tensors. Use tf.sparse.add, tf.sparse.map_values or "
            "tf.sparse.to_dense."
        )
    dense = next((each for each in others if np.ndim(each) and not isinstance(each, str)), None)
    values = sparse.plain_values
    if dense is None:
        bound.arguments[name] = values
        return sparse.with_values(function(*bound.args, **bound.kwargs))
    key = next(key for key, value in bound.arguments.items() if value is dense)
    spread = jnp.broadcast_to(as_array(dense), sparse.shape)[tuple(sparse.plain_indices.T)]
    bound.arguments.update({name: values, key: spread})
    return sparse.with_values(function(*bound.args, **bound.kwargs))


def _places(condition: RaggedTensor) -> Any:
    """Return where values are True: int64 of shape (places, rank)."""
    where = np.argwhere(np.asarray(condition.plain_values))
    outer = np.stack(condition.coordinates(), axis=1)[where[:, 0]]
    return np.concatenate([outer, where[:, 1:]], axis=1)


def _flattened(operands: list[Any]) -> list[Any]:
    """Return the flat values of operands that broadcast to one structure, and a ragged tensor of that one."""
    arrays = [each if isinstance(each, RaggedTensor) else as_array(each) for each in operands]
    like = next(each for each in arrays if isinstance(each, RaggedTensor))
    for each in arrays:
        if each.ndim if not isinstance(each, RaggedTensor) else not with_structure(each, like):
            like = broadcast(each, like)[1]
    flat = [
        broadcast(each, like)[0].plain_values if isinstance(each, RaggedTensor) or each.ndim else given
        for each, given in zip(arrays, operands, strict=True)
    ]
    return [*flat, like]


def broadcast(left: Any, right: Any) -> tuple[RaggedTensor, RaggedTensor]:
    """Return two ragged tensors, or one and an array, with rows of the same lengths.

    Sizes of 1 are repeated, in as many axes as are ragged in one of the two.

    Raises:
        ValueError: Their shapes do not broadcast.
    """
    if isinstance(left, RaggedTensor) and isinstance(right, RaggedTensor) and with_structure(left, right):
        return left, right
    rank = max(left.ndim, right.ndim)
    left, right = _with_rank(left, rank), _with_rank(right, rank)
    rows = [len(left), len(right)]
    if 1 in rows and rows[0] != rows[1]:
        repeats = [max(rows)] + [1] * (rank - 1)
        left, right = (tile(each, repeats) if len(each) == 1 else each for each in (left, right))
    elif rows[0] != rows[1]:
        raise _no_broadcast(*rows)
    found: tuple[RaggedTensor, RaggedTensor] = _aligned(left, right)
    return found


def _with_rank(value: Any, rank: int) -> Any:
    while value.ndim < rank:
        value = expand_dims(value, 0)
    return value


def _no_broadcast(left: Any, right: Any) -> ValueError:
    return ValueError(f"Unable to broadcast: dimension size mismatch in dimension of {left} and {right}.")


def _aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two tensors of one rank and number of rows with rows of the same lengths."""
    if not isinstance(left, RaggedTensor) and not isinstance(right, RaggedTensor):
        return left, right
    left, right = (
        each
        if isinstance(each, RaggedTensor)
        else RaggedTensor(each.reshape(-1, *each.shape[2:]), np.arange(len(each) + 1) * each.shape[1])
        for each in (left, right)
    )
    sizes, others = (np.diff(each.plain_splits[0]) for each in (left, right))
    if not np.array_equal(sizes, others) and (sizes != 1).any() and (others != 1).any():
        raise _no_broadcast(sizes.tolist(), others.tolist())
    wanted = others if (sizes == 1).all() else sizes
    inner = _aligned(*(_repeated(each, wanted) for each in (left, right)))
    made = tuple(RaggedTensor.from_row_lengths(each, wanted) for each in inner)
    return made[0], made[1]


def _repeated(ragged: RaggedTensor, wanted: np.ndarray[Any, Any]) -> Any:
    """Return the values of rows; if each has one, as often as is wanted."""
    splits = ragged.plain_splits[0]
    if np.array_equal(np.diff(splits), wanted):
        return ragged.inner
    return ragged.taken(np.repeat(splits[:-1], wanted))


for _operands, _names in enumerate((_OF_ONE, _OF_TWO, _OF_THREE), 1):
    for _module, _list in _names.items():
        for _name in _list.split():
            _function = getattr(_module, _name)
            on_rows(_function)(_elementwise(_function, _operands))
on_rows(arithmetic)(_elementwise(arithmetic, 2))


@on_rows(_strings.join)
def _join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    *flat, ragged = _flattened(list(inputs))
    return ragged.with_flat_values(_strings.join(flat, separator))


# What is the result for no values, and how values become one: by NumPy, and by JAX.
_SEGMENTS: dict[str, tuple[Any, Any, Any]] = {
    "sum": (lambda dtype: 0, np.add, jax.ops.segment_sum),
    "prod": (lambda dtype: 1, np.multiply, jax.ops.segment_prod),
    "max": (lambda dtype: _limits(dtype).min, np.maximum, jax.ops.segment_max),
    "min": (lambda dtype: _limits(dtype).max, np.minimum, jax.ops.segment_min),
    "all": (lambda dtype: True, np.logical_and, jax.ops.segment_min),
    "any": (lambda dtype: False, np.logical_or, jax.ops.segment_max),
}


def _limits(dtype: Any) -> Any:
    limits: Any = jnp.finfo if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo
    return limits(dtype)


def _by_segments(how: str, values: Any, ids: np.ndarray[Any, Any], count: int) -> Any:
    """Return a value for each of `count` segments."""
    start, on_host, on_device = _SEGMENTS[how]
    if isinstance(values, np.ndarray):
        found = np.full((count, *values.shape[1:]), start(values.dtype), values.dtype)
        on_host.at(found, ids, values)
        return found
    numbers = values.astype(jnp.int32) if values.dtype == bool else values
    found = on_device(numbers, jnp.asarray(ids), count).astype(values.dtype)
    empty = ~np.isin(np.arange(count), ids)
    return jnp.where(empty.reshape(-1, *(1,) * (found.ndim - 1)), start(values.dtype), found)


def _reduced(how: str, ragged: Any, axis: int) -> Any:
    """Return a tensor without an axis, along which values have become one."""
    if not isinstance(ragged, RaggedTensor):
        return getattr(_math, f"reduce_{how}")(ragged, axis)
    if axis > 1:
        return ragged.with_values(_reduced(how, ragged.inner, axis - 1))
    inner, splits = ragged.inner, ragged.plain_splits[0]
    if isinstance(inner, RaggedTensor):  # values in the same place of rows become rows
        longest = int(np.diff(splits).max(initial=0))
        if axis == 1:
            parts = [_reduced(how, ragged.row(number), 0) for number in range(len(ragged))]
        else:
            long = [np.flatnonzero(np.diff(splits) > place) for place in range(longest)]
            parts = [_reduced(how, ragged.taken(splits[:-1][rows] + at), 0) for at, rows in enumerate(long)]
        return stack_rows(parts)
    if axis == 1:
        return _by_segments(how, inner, ragged.coordinates()[0], len(ragged))
    return _by_segments(how, inner, ragged.coordinates()[1], int(np.diff(splits).max(initial=0)))


def stack_rows(rows: list[Any]) -> RaggedTensor:
    """Return tensors that differ in the size of their first axis as the rows of a ragged tensor."""
    return RaggedTensor.from_row_lengths(concat(rows, 0), [len(row) for row in rows])


def _reduction(how: str) -> Callable[..., Any]:
    def reduce(
        input_tensor: RaggedTensor, axis: Any = None, keepdims: bool | None = False, name: str | None = None
    ) -> Any:
        whole: Callable[..., Array] = getattr(_math, f"reduce_{how}")
        if isinstance(input_tensor, SparseTensor):
            raise TypeError(
                f"tf.reduce_{how} takes no sparse tensor. Use tf.sparse.reduce_sum or reduce_max."
            )
        if axis is None:
            reduced: Any = whole(input_tensor.plain_values)
            return reduced.reshape([1] * input_tensor.ndim) if keepdims else reduced
        rank = input_tensor.ndim
        axes = sorted({int(each) % rank for each in np.ravel(axis)}, reverse=True)
        found = _along(how, input_tensor, axes)
        for each in reversed(axes) if keepdims else ():
            found = expand_dims(found, each)
        return found

    return reduce


def _along(how: str, ragged: Any, axes: list[int]) -> Any:
    """Return a tensor without some axes, the last of which comes first in the list."""
    if how in _SEGMENTS:
        for axis in axes:
            ragged = _reduced(how, ragged, axis)
        return ragged
    values = ragged.plain_values
    if how == "mean":
        ones = np.ones(values.shape, values.dtype)
        return _quotient(_along("sum", ragged, axes), _along("sum", ragged.with_flat_values(ones), axes))
    if how == "std":
        return _math.sqrt(_along("variance", ragged, axes))
    squares = _along("mean", ragged.with_flat_values(values * values), axes)
    return _math.subtract(squares, _math.square(_along("mean", ragged, axes)))


def _quotient(total: Any, count: Any) -> Any:
    if isinstance(total, RaggedTensor):
        return total.with_flat_values(_quotient(total.plain_values, count.plain_values))
    with np.errstate(invalid="ignore"):
        return total / count


for _how in ("all", "any", "max", "mean", "min", "prod", "std", "sum", "variance"):
    on_rows(getattr(_math, f"reduce_{_how}"))(_reduction(_how))


def _with_methods(shape: Any) -> Callable[[Any], Any]:
    plain = shape.fget

    def get(self: Any) -> TensorShape:
        return TensorShape(plain(self))

    return get


def _operator(how: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return shown_part(arithmetic(other, self, how) if reflected else arithmetic(self, other, how))

    return method


_COMPARED = {"__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge"}


def add_operators() -> None:
    """Give ragged and sparse tensors Python's operators, and TensorFlow's parts and methods."""
    kinds: list[Any] = [RaggedTensor, SparseTensor]
    for kind in kinds:
        change(kind, "shape", property(_with_methods(kind.shape)))
        change(kind, "get_shape", get_shape)
    for how in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "and_", "or_", "xor"):
        name = how.rstrip("_")
        change(RaggedTensor, f"__{name}__", _operator(how))
        change(RaggedTensor, f"__r{name}__", _operator(how, reflected=True))
    for name, how in _COMPARED.items():
        change(RaggedTensor, name, _operator(how))
    for name, function in (("neg", _math.negative), ("invert", _math.logical_not), ("abs", _math.abs)):
        change(RaggedTensor, f"__{name}__", lambda self, function=function: shown_part(function(self)))
    for name, method in vars(RaggedMethods).items():
        if not name.startswith("__"):
            change(RaggedTensor, name, method)
    for how in ("mul", "truediv"):
        change(SparseTensor, f"__{how}__", _operator(how))
    change(SparseTensor, "__rmul__", lambda self, other: self * other)
