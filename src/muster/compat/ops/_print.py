"""``tf.print``: prints numbers, of a compiled step as well."""

import functools
import sys
from typing import Any, TextIO

import jax
import numpy as np

from muster._keras import keras
from muster.compat.ops._arrays import is_traced
from muster.distribute import PerReplica


def tf_print(
    *inputs: Any,
    output_stream: TextIO | None = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> None:
    """Print values; in a function that is being traced, whenever the compiled step gets there.

    A step prints once on each replica of this process. Numbers look as NumPy prints them.

    Args:
        inputs: texts, numbers, arrays, variables, and nested structures of them.
        output_stream: None is standard error.
        summarize: how many elements of an axis are printed at its start and at its end; -1 for all.
        sep: between the inputs.
        end: after the last one.
        name: unused.

    Source: tensorflow/python/ops/logging_ops.py, ``print_v2``.
    """
    values = [_value(leaf) for leaf in jax.tree.leaves(list(inputs), is_leaf=_is_leaf)]
    places = [i for i, value in enumerate(values) if isinstance(value, jax.Array)]
    write = functools.partial(_write, inputs, values, places, output_stream, summarize, sep, end)
    arrays = [values[i] for i in places]
    if is_traced(*arrays):
        jax.debug.callback(write, *arrays)
    else:
        write(*arrays)


def _is_leaf(value: Any) -> bool:
    return value is None or isinstance(value, PerReplica | keras.Variable)


def _value(leaf: Any) -> Any:
    """What is printed of a leaf: an array, or what has a text."""
    if isinstance(leaf, keras.Variable):
        return leaf.value
    if isinstance(leaf, PerReplica):
        return leaf.data if is_traced(leaf.data) else leaf
    return leaf


def _write(
    inputs: tuple[Any, ...],
    values: list[Any],
    places: list[int],
    stream: TextIO | None,
    summarize: int,
    sep: str,
    end: str,
    *arrays: Any,
) -> None:
    filled = dict(zip(places, arrays, strict=True))
    texts = [_Text(_text(filled.get(i, value), summarize)) for i, value in enumerate(values)]
    structure = jax.tree.structure(list(inputs), is_leaf=_is_leaf)
    print(
        *jax.tree.unflatten(structure, texts), sep=sep, end=end, file=sys.stderr if stream is None else stream
    )


class _Text(str):
    """A text that looks in lists and dicts as it is."""

    def __repr__(self) -> str:
        return str(self)


def _text(value: Any, summarize: int) -> str:
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return str(value)
    array = np.asarray(value)
    if summarize < 0:
        return np.array2string(array, threshold=sys.maxsize)
    return np.array2string(array, threshold=0, edgeitems=max(summarize, 1))
