"""Functions of Keras 2's ``backend`` whose name or behaviour differs in ``keras.ops``.

Source: tensorflow/python/keras/backend.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster import keras
from muster_tensorflow.library.ops.random._random import normal, uniform

SAME = frozenset(
    (
        "abs all any cast categorical_crossentropy ceil cos elu exp floor log logsumexp max mean min prod "
        "round sigmoid sign sin slice softmax softplus softsign binary_crossentropy sqrt square "
        "squeeze stack std sum tanh transpose var"
    ).split()
)
"""The functions that ``keras.ops`` has under the same name."""


def argmax(x: Any, axis: int = -1) -> Any:
    """Return the index of the greatest value along an axis."""
    return keras.ops.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """Return the index of the least value along an axis."""
    return keras.ops.argmin(x, axis)


def batch_dot(x: Any, y: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Multiply each example of one array by that of another, and sum over an axis of each.

    Args:
        x: Shape (batch, …).
        y: Shape (batch, …).
        axes: The axis of each to sum over, or one for both; None is the last one of ``x``, and of ``y`` the
            last but one, or its second if it has two.

    Returns:
        The axes of ``x`` and then those of ``y`` that are left; shape (batch, 1) if none is.

    Raises:
        ValueError: An axis is that of examples.

    Source: keras/src/backend.py of Keras 2.15, ``batch_dot``.
    """
    ranks = len(x.shape), len(y.shape)
    if axes is None:
        axes = (ranks[0] - 1, max(ranks[1] - 2, 1))
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    one, two = (axis % rank for axis, rank in zip(pair, ranks, strict=True))
    if 0 in (one, two):
        raise ValueError(f"Cannot perform batch_dot over axis 0, that of examples: axes is {axes}.")
    left = ["b", *"cdefgh"[: ranks[0] - 1]]
    right = ["b", *"ijklmn"[: ranks[1] - 1]]
    left[one] = right[two] = "z"
    kept = [each for each in (*left[1:], *right[1:]) if each != "z"]
    found = keras.ops.einsum(f"{''.join(left)},{''.join(right)}->b{''.join(kept)}", x, y)
    return found if kept else keras.ops.expand_dims(found, 1)


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Any:
    """Concatenate along an axis."""
    return keras.ops.concatenate(tensors, axis)


def constant(value: Any, dtype: str | None = None, shape: Any = None, name: str | None = None) -> Any:
    """Make an array; ``name`` is unused."""
    array = keras.ops.convert_to_tensor(value, dtype or keras.config.floatx())
    return array if shape is None else keras.ops.broadcast_to(array, shape)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """Add an axis of length one."""
    return keras.ops.expand_dims(x, axis)


def flatten(x: Any) -> Any:
    """Return all elements in one axis."""
    return keras.ops.reshape(x, (-1,))


def function(
    inputs: Any, outputs: Any, updates: None = None, name: str | None = None
) -> Callable[[Any], Any]:
    """Return a function that computes Keras' tensors from values of others, as NumPy's arrays.

    ``updates`` is only None, and ``name`` unused.
    """
    model = keras.Model(inputs, outputs)

    def compute(values: Any) -> Any:
        return jax.tree.map(np.asarray, model(values))

    return compute


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """Return the CTC loss of each sequence, ``[batch, 1]``.

    Args:
        y_true: Labels, ``[batch, longest]``; the last class of ``y_pred`` is the blank.
        y_pred: Probabilities, ``[batch, times, classes]``.
        input_length: How many times there are of each sequence, ``[batch, 1]``.
        label_length: How many labels there are of each, ``[batch, 1]``.
    """
    logits = keras.ops.log(keras.ops.convert_to_tensor(y_pred) + keras.config.epsilon())
    lengths = (
        keras.ops.cast(keras.ops.reshape(each, (-1,)), "int32") for each in (label_length, input_length)
    )
    labels = keras.ops.cast(y_true, "int32")
    return keras.ops.ctc_loss(labels, logits, *lengths, mask_index=logits.shape[-1] - 1)[:, None]


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Any], Any]:
    """Return the labels of each sequence, by the most probable class of each time or by a beam search.

    Args:
        y_pred: Probabilities, ``[batch, times, classes]``, of which the last class is the blank.
        input_length: How many times there are of each sequence, ``[batch]``.
        greedy: Whether to take the most probable class of each time.
        beam_width: How many sequences a beam search follows.
        top_paths: How many of them it returns.

    Returns:
        A list of labels, ``[batch, times]``, -1 after the last one, for each path; and how probable they are,
        as ``tf.nn.ctc_greedy_decoder`` and ``ctc_beam_search_decoder`` say it.
    """
    logits = keras.ops.log(keras.ops.convert_to_tensor(y_pred) + keras.config.epsilon())
    paths, found = keras.ops.ctc_decode(
        logits,
        keras.ops.cast(keras.ops.reshape(input_length, (-1,)), "int32"),
        strategy="greedy" if greedy else "beam_search",
        beam_width=beam_width,
        top_paths=top_paths,
        mask_index=logits.shape[-1] - 1,
    )
    return list(paths), found


def get_value(x: Any) -> Any:
    """Return the value of a variable or array as NumPy's array; also called ``eval``."""
    return np.asarray(keras.ops.convert_to_numpy(x))


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Repeat each element along an axis."""
    return keras.ops.repeat(x, rep, axis)


def reverse(x: Any, axes: int | Sequence[int]) -> Any:
    """Reverse the order along axes."""
    return keras.ops.flip(x, axes)


def set_value(x: Any, value: Any) -> None:
    """Assign to a variable."""
    x.assign(value)


def int_shape(x: Any) -> tuple[int | None, ...]:
    """Return the shape as a tuple, with None for what is not known yet."""
    return tuple(x.shape)


def l2_normalize(x: Any, axis: int | None = None) -> Any:
    """Divide by the Euclidean norm along an axis; None for that of all elements."""
    total = keras.ops.sum(keras.ops.square(x), axis, keepdims=True)
    return x * keras.ops.rsqrt(keras.ops.maximum(total, 1e-12))


def ndim(x: Any) -> int:
    """Return the number of axes."""
    return len(x.shape)


def dtype(x: Any) -> str:
    """Return the name of the dtype."""
    return str(keras.backend.standardize_dtype(x.dtype))


def gather(reference: Any, indices: Any) -> Any:
    """Return the rows of some indices."""
    return keras.ops.take(reference, indices, axis=0)


def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    """Return whether each target is one of the k likeliest classes."""
    return keras.ops.in_top_k(keras.ops.convert_to_tensor(targets), predictions, k)


def identity(x: Any, name: str | None = None) -> Any:
    """Return the same value."""
    return keras.ops.convert_to_tensor(x)


def count_params(x: Any) -> int:
    """Return the number of elements."""
    return int(np.prod(x.shape))


def batch_flatten(x: Any) -> Any:
    """Return all elements of an example in one axis."""
    return keras.ops.reshape(x, (-1, int(np.prod(x.shape[1:]))))


def repeat(x: Any, n: int) -> Any:
    """Return an array of shape (batch, features) n times, of shape (batch, n, features)."""
    return keras.ops.repeat(keras.ops.expand_dims(x, 1), n, 1)


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """Return the values of variables or arrays as NumPy's arrays."""
    return [get_value(each) for each in tensors]


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Assign to variables, in pairs of one and its value."""
    for each, value in tuples:
        set_value(each, value)


def update(x: Any, new_x: Any) -> Any:
    """Assign to a variable."""
    return x.assign(new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Add to a variable."""
    return x.assign_add(increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtract from a variable."""
    return x.assign_sub(decrement)


def moving_average_update(x: Any, value: Any, momentum: float) -> Any:
    """Let a variable be ``momentum`` of itself and the rest of a value."""
    return x.assign(x * momentum + value * (1 - momentum))


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Any:
    """Reorder the axes."""
    return keras.ops.transpose(x, pattern)


def pow(x: Any, a: float) -> Any:
    """Raise to a power."""
    return keras.ops.power(x, a)


def random_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: str | None = None, seed: Any = None
) -> Any:
    """Draw from a normal distribution, in the way of ``tf.random.normal``."""
    return normal(shape, mean, stddev, dtype or keras.config.floatx(), seed)


def random_uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: str | None = None, seed: Any = None
) -> Any:
    """Draw from a uniform distribution, in the way of ``tf.random.uniform``."""
    return uniform(shape, minval, maxval, dtype or keras.config.floatx(), seed)


def variable(value: Any, dtype: str | None = None, name: str | None = None, constraint: None = None) -> Any:
    """Make a variable; ``constraint`` is only None."""
    return keras.Variable(value, dtype=dtype or keras.config.floatx(), name=name)
