"""Rows selected by ``tf.boolean_mask`` and ``dynamic_partition`` in a traced step, kept as a mask.

Shapes are fixed there: all rows stay, with the mask. Operations that compute each row by itself do so with
all of them; what reduces rows leaves out those that are not chosen, as losses and metrics do, to which the
mask is weights.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import replaced
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError

Params = ParamSpec("Params")
Result = TypeVar("Result")

# Operations that compute each value by itself, and those of the last axis of each row.
_BY_VALUE = set(
    """
    abs add add_n arithmetic cast ceil clip_by_value divide_no_nan elu equal erf exp expm1 floor floor_divide
    gelu greater greater_equal identity isfinite isinf isnan leaky_relu less less_equal log log1p log_sigmoid
    logical_and logical_not logical_or logical_xor maximum minimum mod multiply multiply_no_nan negative
    not_equal ones_like power reciprocal relu relu6 round rsqrt scalar_mul selu sigmoid
    sigmoid_cross_entropy_with_logits sign silu softplus sqrt square squared_difference stop_gradient subtract
    tanh true_divide weighted_cross_entropy_with_logits where zeros_like
    """.split()
)
_BY_ROW = set(
    """
    argmax argmin in_top_k item l2_normalize log_softmax one_hot softmax softmax_cross_entropy_with_logits
    sparse_softmax_cross_entropy_with_logits top_k
    """.split()
)
# What stands for rows that are not chosen where rows are reduced.
_FILLED_WITH: dict[str, Callable[[Any], Any]] = {
    "reduce_sum": lambda dtype: 0,
    "count_nonzero": lambda dtype: 0,
    "reduce_mean": lambda dtype: 0,
    "reduce_prod": lambda dtype: 1,
    "reduce_any": lambda dtype: False,
    "reduce_all": lambda dtype: True,
    "reduce_max": lambda dtype: -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min,
    "reduce_min": lambda dtype: jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max,
}


class Chosen:
    """The rows of an array at which a mask is True.

    Args:
        rows: All rows, of shape (rows, ...).
        mask: Which of them are chosen, booleans of shape (rows,).
        of: What the program has chosen them by: a mask and None, or numbers of parts and one of these. Rows
            that the same has chosen can be computed with together.
    """

    __slots__ = ("mask", "of", "rows")

    def __init__(self, rows: jax.Array, mask: jax.Array, of: tuple[jax.Array, int | None]) -> None:
        self.rows, self.mask, self.of = rows, mask, of

    @property
    def shape(self) -> TensorShape:
        """The shape, None for the number of rows."""
        return TensorShape((None, *self.rows.shape[1:]))

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return np.dtype(self.rows.dtype)

    def count(self) -> jax.Array:
        """Return how many rows are chosen."""
        return jnp.sum(self.mask.astype("int32"))

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise _unknown("This")

    __array__ = __jax_array__ = __iter__ = __len__ = __bool__ = _refuse


def choose(tensor: jax.Array, by: jax.Array, part: int | None = None) -> Chosen:
    """Return the rows of an array at which a mask of its first axes is True, or has the number of a part.

    Raises:
        ValueError: The mask has other sizes.
    """
    if by.ndim == 0 or tensor.shape[: by.ndim] != by.shape:
        raise ValueError(
            f"Rows are chosen of shape {tuple(tensor.shape)} by a mask of shape {tuple(by.shape)}, which has "
            "to be the beginning of it."
        )
    mask = by.reshape(-1).astype(bool) if part is None else by.reshape(-1) == part
    return Chosen(tensor.reshape(-1, *tensor.shape[by.ndim :]), mask, (by, part))


def filled_with_zeros(chosen: Chosen) -> jax.Array:
    """Return all rows, with zeros for those that are not chosen."""
    return jnp.where(chosen.mask.reshape(-1, *(1,) * (chosen.rows.ndim - 1)), chosen.rows, 0)


def compute_chosen(key: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return the result of an operation on rows that a mask chooses.

    Args:
        key: Which operation it is.
        function: The operation.
        args: Its arguments.
        kwargs: Its named arguments.

    Raises:
        NeedsValuesError: It needs to know which rows these are, or has rows of several masks.
    """
    name = key.rpartition(".")[2]
    found = _of_one_mask(name, (args, kwargs))
    chosen, rank = found[0], max(each.rows.ndim for each in found)
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    if name == "shape":
        return jnp.asarray([chosen.count(), *chosen.rows.shape[1:]])
    if name == "size":
        return chosen.count() * math.prod(chosen.rows.shape[1:])
    if name in _FILLED_WITH and _reduces_rows(rank, given.get("axis")):
        return _reduced(name, function, chosen, args, kwargs)
    if name in _BY_VALUE or name in _FILLED_WITH or (name in _BY_ROW and _is_by_row(name, rank, given)):
        others: list[Any] = []
        replaced((args, kwargs), (jax.Array, np.ndarray), others.append)
        if any(np.ndim(other) >= rank and np.shape(other)[0] != 1 for other in others):
            raise _unknown(f"tf.{name}")
        plain_args, plain_kwargs = replaced((args, kwargs), Chosen, lambda each: each.rows)
        results = function(*plain_args, **plain_kwargs)
        return jax.tree.map(lambda rows: Chosen(rows, chosen.mask, chosen.of), results)
    raise _unknown(f"tf.{name}")


def mask_as_weights(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Let a loss or metric with ``weights`` take rows that a mask chooses: the others weigh nothing."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def weighed(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        found = _of_one_mask(function.__name__, (args, kwargs))
        if not found:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        axes = min(each.rows.ndim for each in found)
        weights = given.get("weights")
        of_rows = 1.0 if weights is None else weights.rows if isinstance(weights, Chosen) else weights
        mask = found[0].mask.reshape(-1, *(1,) * (axes - 1))
        given["weights"] = jnp.where(mask, of_rows, 0).astype("float32")
        for name, value in given.items():
            given[name] = value.rows if isinstance(value, Chosen) else value
        return function(*bound.args, **bound.kwargs)

    return weighed


def _of_one_mask(name: str, arguments: Any) -> list[Chosen]:
    found: list[Chosen] = []
    replaced(arguments, Chosen, found.append)
    if any(each.of[0] is not found[0].of[0] or each.of[1] != found[0].of[1] for each in found):
        raise NeedsValuesError(
            f"tf.{name} has rows that tf.boolean_mask has chosen by different masks. In a compiled step give "
            "it the same array for the mask each time."
        )
    return found


def _reduces_rows(rank: int, axis: Any) -> bool:
    axes = [axis] if isinstance(axis, int | np.integer) else axis
    return axes is None or any(each % rank == 0 for each in axes)


def _is_by_row(name: str, rank: int, given: dict[str, Any]) -> bool:
    if name == "item":
        parts = given["key"]
        return isinstance(parts, tuple) and len(parts) > 1 and parts[0] in (slice(None), Ellipsis)
    if name == "one_hot":
        return given.get("axis") in (None, -1)
    default = {"argmax": 0, "argmin": 0, "l2_normalize": None}.get(name, -1)
    axis = given.get("axis", default)
    axis = default if axis is None else axis
    return axis is not None and axis % rank != 0


def _reduced(name: str, function: Callable[..., Any], chosen: Chosen, args: Any, kwargs: Any) -> Any:
    def filled(each: Chosen) -> jax.Array:
        mask = each.mask.reshape(-1, *(1,) * (each.rows.ndim - 1))
        return jnp.where(mask, each.rows, jnp.asarray(_FILLED_WITH[name](each.rows.dtype), each.rows.dtype))

    plain_args, plain_kwargs = replaced((args, kwargs), Chosen, filled)
    result = function(*plain_args, **plain_kwargs)
    if name != "reduce_mean":
        return result
    if jnp.issubdtype(result.dtype, jnp.floating):
        return result / jnp.mean(chosen.mask.astype(result.dtype))
    raise NeedsValuesError(
        f"tf.reduce_mean of {result.dtype} that tf.boolean_mask has chosen: cast it to tf.float32."
    )


def _unknown(what: str) -> NeedsValuesError:
    return NeedsValuesError(
        f"{what} needs the rows that tf.boolean_mask has chosen, and how many there are is not known in a "
        "compiled step. Operations of single values and rows, sums and means, losses and metrics work with "
        "them; else keep all rows, and weigh them by the mask."
    )
