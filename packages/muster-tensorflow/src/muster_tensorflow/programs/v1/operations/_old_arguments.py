"""Operations with TensorFlow 1's arguments where TensorFlow 2 has others, such as ``keep_dims``.

Source: the functions of these names in tensorflow/python/ops/.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.data import decode_csv as _decode_csv
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, Axis, DTypeLike, as_array
from muster_tensorflow.library.ops._eager_values import shown_decoded
from muster_tensorflow.library.ops.arrays import _segments, _select, _shape
from muster_tensorflow.library.ops.control._control import cond as _cond
from muster_tensorflow.library.ops.control._control import while_loop as _while_loop
from muster_tensorflow.library.ops.math import _math
from muster_tensorflow.library.ops.nn import _candidates, _layers_of_nn, _nn
from muster_tensorflow.library.ops.text import _strings


def argmax(
    input: ArrayLike,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: DTypeLike = np.int64,
) -> Array:
    """Return the index of the largest value along an axis; ``dimension`` is the axis' old name."""
    return _math.argmax(input, dimension if axis is None else axis, output_type)


def argmin(
    input: ArrayLike,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: DTypeLike = np.int64,
) -> Array:
    """Return the index of the smallest value along an axis; ``dimension`` is the axis' old name."""
    return _math.argmin(input, dimension if axis is None else axis, output_type)


def norm(
    tensor: ArrayLike,
    ord: Any = "euclidean",
    axis: Axis = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Array:
    """Return a norm along an axis, or of all values; ``keep_dims`` is the old name of ``keepdims``."""
    return _math.norm(tensor, ord, axis, keepdims or keep_dims)


def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, name: str | None = None
) -> Array:
    """Return ``x`` where a condition holds, else ``y``; a condition of one axis chooses rows.

    Source: ``where`` (tensorflow/python/ops/array_ops.py), which is the kernel ``Select``.
    """
    if x is not None and y is not None:
        rank = np.ndim(as_array(x))
        if np.ndim(as_array(condition)) == 1 < rank:
            condition = _shape.reshape(condition, (-1, *[1] * (rank - 1)))
    return _math.where(condition, x, y)


def boolean_mask(
    tensor: ArrayLike, mask: ArrayLike, name: str = "boolean_mask", axis: int | None = None
) -> Any:
    """Return the values at which a mask is True: in the step of a model_fn, rows for losses and sums."""
    return _select.boolean_mask(tensor, mask, axis)


def gather(
    params: ArrayLike,
    indices: ArrayLike,
    validate_indices: None = None,
    name: str | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Any:
    """Take the slices of an array at ``indices`` along an axis."""
    gathered: Array = _shape.gather(params, indices, axis=axis, batch_dims=batch_dims)
    return gathered


def gather_nd(params: ArrayLike, indices: ArrayLike, name: str | None = None, batch_dims: int = 0) -> Array:
    """Take values or slices: the last axis of ``indices`` counts along the axes of ``params``."""
    return _select.gather_nd(params, indices, batch_dims)


def shape(input: ArrayLike, name: str | None = None, out_type: DTypeLike = None) -> Array:
    """Return the shape as a NumPy array, int32 by default."""
    return _shape.shape(input, out_type)


def transpose(
    a: ArrayLike, perm: Sequence[int] | None = None, name: str = "transpose", conjugate: bool = False
) -> Array:
    """Permute the axes into the order ``perm``; without one, reverse them."""
    return _shape.transpose(a, perm, conjugate)


def pad(
    tensor: ArrayLike,
    paddings: ArrayLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: ArrayLike = 0,
) -> Array:
    """Pad an array on each axis."""
    return _shape.pad(tensor, paddings, mode, constant_values)


def cond(
    pred: ArrayLike,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Call one of two functions; ``fn1`` and ``fn2`` are their old names.

    Raises:
        TypeError: One of them is missing.
    """
    first, second = true_fn or fn1, false_fn or fn2
    if first is None or second is None:
        raise TypeError("tf.cond needs two functions: true_fn and false_fn.")
    return _cond(pred, first, second)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: int | None = None,
    return_same_structure: bool = False,
) -> Any:
    """Call ``body`` as long as ``cond`` says so; a single value comes without a list, unless told else."""
    last = _while_loop(cond, body, loop_vars, maximum_iterations=maximum_iterations)
    return last if return_same_structure or len(last) > 1 else last[0]


def div(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Divide as Python 2 does: integers are rounded down."""
    whole = all(np.dtype(_shape.convert_to_tensor(value).dtype).kind in "iu" for value in (x, y))
    return _math.floordiv(x, y) if whole else _math.divide(x, y)


def to_float(x: ArrayLike, name: str = "ToFloat") -> Array:
    """Convert to float32."""
    return _math.cast(x, np.float32)


def to_double(x: ArrayLike, name: str = "ToDouble") -> Array:
    """Convert to float64, which in a step is float32."""
    return _math.cast(x, np.float64)


def to_int32(x: ArrayLike, name: str = "ToInt32") -> Array:
    """Convert to int32."""
    return _math.cast(x, np.int32)


def to_int64(x: ArrayLike, name: str = "ToInt64") -> Array:
    """Convert to int64, which in a step is int32."""
    return _math.cast(x, np.int64)


def to_bfloat16(x: ArrayLike, name: str = "ToBFloat16") -> Array:
    """Convert to bfloat16."""
    return _math.cast(x, jax.numpy.bfloat16)


@shown_decoded
def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Any]:
    """Read lines of CSV files, as `muster.data.decode_csv` does."""
    return _decode_csv(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols)


def confusion_matrix(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int | None = None,
    dtype: DTypeLike = np.int32,
    name: str | None = None,
    weights: ArrayLike | None = None,
) -> jax.Array:
    """Count predictions of each class, the columns, for labels of each class, the rows."""
    return _segments.confusion_matrix(labels, predictions, num_classes, weights, dtype)


def substr(input: Any, pos: int, len: int, name: str | None = None, unit: str = "BYTE") -> Any:
    """Return ``len`` bytes or characters of texts from ``pos`` on."""
    return _strings.substr(input, pos, len, unit)


def dropout(
    x: ArrayLike,
    keep_prob: float | None = None,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: float | None = None,
) -> jax.Array:
    """Set a fraction of the values to 0, which is ``rate`` or ``1 - keep_prob``, and scale the others.

    Raises:
        ValueError: Not exactly one of ``keep_prob`` and ``rate`` is there.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("tf.nn.dropout needs either keep_prob or rate, which is 1 - keep_prob.")
    return _layers_of_nn.dropout(x, 1 - keep_prob if rate is None else rate, noise_shape, seed, name)  # type: ignore[operator]


def conv2d(
    input: ArrayLike,
    filter: ArrayLike | None = None,
    strides: Any = None,
    padding: str | None = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: ArrayLike | None = None,
) -> jax.Array:
    """Apply a 2D convolution; ``filters`` is another name of ``filter``.

    Raises:
        TypeError: There are no filters, no strides or no padding.
    """
    kernel = filters if filter is None else filter
    if kernel is None or strides is None or padding is None:
        raise TypeError("tf.nn.conv2d needs filter, strides and padding.")
    return _layers_of_nn.conv2d(input, kernel, strides, padding, data_format, dilations)


def moments(
    x: ArrayLike,
    axes: Axis,
    shift: None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Return the mean and the variance over axes; ``keep_dims`` is the old name of ``keepdims``."""
    return _nn.moments(x, axes, None, bool(keepdims or keep_dims))


def embedding_lookup(
    params: ArrayLike,
    ids: ArrayLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> jax.Array:
    """Take rows of a table; ``partition_strategy`` is unused, for a table is one variable here.

    Raises:
        ValueError: There are several tables.
    """
    return _nn.embedding_lookup(_one_table(params), ids, max_norm)


def _one_table(params: Any) -> Any:
    if not isinstance(params, list | tuple):
        return params
    if len(params) != 1:
        raise ValueError("tf.nn.embedding_lookup takes one table: strategies divide it by themselves.")
    return params[0]


def embedding_lookup_sparse(
    params: ArrayLike,
    sp_ids: ArrayLike,
    sp_weights: ArrayLike | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
    allow_fast_lookup: bool = False,
) -> jax.Array:
    """Combine rows of a table for each example, as `tf.nn.embedding_lookup_sparse` of TensorFlow 2."""
    return _nn.embedding_lookup_sparse(_one_table(params), sp_ids, sp_weights, combiner, max_norm)


def safe_embedding_lookup_sparse(
    embedding_weights: ArrayLike,
    sparse_ids: ArrayLike,
    sparse_weights: ArrayLike | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
    allow_fast_lookup: bool = False,
) -> jax.Array:
    """Do so without ids that are invalid, as `tf.nn.safe_embedding_lookup_sparse` of TensorFlow 2."""
    table = _one_table(embedding_weights)
    return _nn.safe_embedding_lookup_sparse(table, sparse_ids, sparse_weights, combiner, default_id, max_norm)


def nce_loss(
    weights: ArrayLike,
    biases: ArrayLike,
    labels: ArrayLike,
    inputs: ArrayLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str | None = None,
) -> jax.Array:
    """Return the noise-contrastive loss of each example; ``partition_strategy`` is unused."""
    return _candidates.nce_loss(
        *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
        remove_accidental_hits,
    )


def sampled_softmax_loss(
    weights: ArrayLike,
    biases: ArrayLike,
    labels: ArrayLike,
    inputs: ArrayLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str | None = None,
    seed: int | None = None,
) -> jax.Array:
    """Return the cross entropy among classes and drawn ones; ``partition_strategy`` is unused."""
    return _candidates.sampled_softmax_loss(
        *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
        remove_accidental_hits,
        seed,
    )


def xw_plus_b(x: ArrayLike, weights: ArrayLike, biases: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``matmul(x, weights) + biases``."""
    return _layers_of_nn.bias_add(_shape.matmul(x, weights), biases)
