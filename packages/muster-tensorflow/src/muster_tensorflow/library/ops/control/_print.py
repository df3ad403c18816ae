"""``tf.print``, also in compiled steps."""

import sys
from typing import Any, TextIO

import jax
import numpy as np

from muster import keras
from muster.distribute import PerReplica
from muster_tensorflow.library.ops._arrays import is_traced


def tf_print(
    *inputs: object,
    output_stream: TextIO | None = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> None:
    """Print values; in a traced function, each time the compiled function runs.

    A step prints once for each replica of this process. Arrays look as TensorFlow prints them.

    Args:
        inputs: Texts, numbers, arrays, variables, and nested structures of them.
        output_stream: Where to print; None is standard error.
        summarize: How many elements to print at the start and the end of each axis; -1 for all.
        sep: The text between the inputs.
        end: The text after the last input.
        name: Unused.

    Source: tensorflow/python/ops/logging_ops.py, ``print_v2``.
    """
    leaves, structure = jax.tree.flatten(list(inputs), is_leaf=_is_leaf)
    values = [_value(leaf) for leaf in leaves]
    alone = len(leaves) == 1 and leaves[0] is inputs[0]

    def write(arrays: dict[int, jax.Array]) -> None:
        texts = [_Text(_text(arrays.get(i, value), summarize, alone)) for i, value in enumerate(values)]
        stream = sys.stderr if output_stream is None else output_stream
        print(*jax.tree.unflatten(structure, texts), sep=sep, end=end, file=stream)

    arrays = {i: value for i, value in enumerate(values) if isinstance(value, jax.Array)}
    if is_traced(*arrays.values()):
        jax.debug.callback(write, arrays)
    else:
        write(arrays)


def _is_leaf(value: object) -> bool:
    return value is None or isinstance(value, PerReplica | keras.Variable)


def _value(leaf: object) -> object:
    """Return what to print for a leaf: an array, or an object that has a text."""
    if isinstance(leaf, keras.Variable):
        return leaf.value
    if isinstance(leaf, PerReplica) and is_traced(leaf.data):
        return leaf.data
    return leaf


class _Text(str):
    """A text without quotation marks when a list or a dict that holds it is printed."""

    def __repr__(self) -> str:
        return str(self)


def _text(value: object, summarize: int, alone: bool) -> str:
    """Return an array as TensorFlow prints it: 4.0 is ``4``, and text is quoted unless it is alone."""
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return str(value)
    array = np.asarray(value)
    if alone and array.ndim == 0 and array.dtype.kind in "OSTU":
        return _decoded(array.item())
    return np.array2string(
        array,
        max_line_width=sys.maxsize,
        threshold=sys.maxsize if summarize < 0 else 0,
        edgeitems=max(summarize, 1),
        formatter={"all": _element},
    )


def _element(value: Any) -> str:
    if isinstance(value, str | bytes):
        return f'"{_decoded(value)}"'
    if isinstance(value, np.complexfloating | np.integer):
        return str(value)
    if isinstance(value, np.bool_):
        return str(int(value))
    kind, short, long = (np.float64, 15, 17) if isinstance(value, np.float64) else (np.float32, 6, 9)
    text = f"{float(value):.{short}g}"
    return text if kind(text) == value else f"{float(value):.{long}g}"


def _decoded(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
