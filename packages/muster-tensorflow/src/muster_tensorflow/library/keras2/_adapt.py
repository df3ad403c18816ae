"""Let ``adapt`` of Keras' layers take a `muster.data.Dataset`; Keras itself accepts only TensorFlow's.

Lists and data frames are arrays, other data is as it was.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import Dataset
from muster_tensorflow.patches import change, wrap


def _batches(data: Dataset) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the first part of each element, as float64, with an axis of features."""
    for element in data:
        batch = np.asarray(element[0] if isinstance(element, tuple) else element, np.float64)
        yield batch[:, None] if batch.ndim == 1 else batch


def _normalizing(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap ``Normalization.adapt``: of a dataset, it adapts to two values of the same mean and variance."""

    @functools.wraps(original)
    def adapt(self: Any, data: Any, batch_size: Any = None, steps: int | None = None) -> None:
        if not isinstance(data, Dataset):
            is_table = isinstance(data, list | tuple) or hasattr(data, "__array__")
            original(self, np.asarray(data) if is_table and not isinstance(data, jax.Array) else data)
            return
        data = data if steps is None else data.take(steps)
        count, total, squares, shape = 0, 0.0, 0.0, ()
        for batch in _batches(data):
            kept = {axis % batch.ndim for axis in _axes(self.axis)}
            reduced = tuple(axis for axis in range(batch.ndim) if axis not in kept)
            size = batch.size // max(1, np.prod([batch.shape[axis] for axis in kept], dtype=int))
            mean = batch.mean(reduced, keepdims=True)
            # In parts, since a sum of squares alone would cancel.
            step = (mean - total) * (size / (count + size))
            squares = squares + ((batch - mean) ** 2).sum(reduced, keepdims=True)
            squares, total = squares + step * (mean - total) * count, total + step
            count, shape = count + size, batch.shape
        if not count:
            raise ValueError("adapt got a dataset without elements.")
        if not self.built:
            self.build((None, *shape[1:]))
        spread = np.sqrt(squares / count)
        pair = np.concatenate([total - spread, total + spread])
        original(self, np.broadcast_to(pair, (2, *shape[1:])).astype("float32"))

    return adapt


def _discretize(self: Any, data: Any, batch_size: Any = None, steps: int | None = None) -> None:
    """Learn the boundaries of bins, which hold about as many numbers each.

    ``Discretization.adapt``, which asks TensorFlow also where data is an array.

    Args:
        data: Numbers, or a dataset of batches of them.
        batch_size: Unused.
        steps: How many elements of a dataset to read; None for all.

    Raises:
        ValueError: The layer was given its boundaries.
    """
    if self.num_bins is None:
        raise ValueError("This Discretization has its bin_boundaries: to learn them, give num_bins instead.")
    self.reset_state()
    for batch in data.take(-1 if steps is None else steps) if isinstance(data, Dataset) else [data]:
        self.update_state(np.asarray(batch))
    self.finalize_state()


def _axes(axis: Any) -> tuple[int, ...]:
    return () if axis is None else tuple(np.ravel(axis).tolist())


def patch() -> None:
    """Let ``adapt`` take datasets of muster's."""
    layer = keras.layers.Normalization
    wrap(layer, "adapt", _normalizing)
    change(keras.layers.Discretization, "adapt", _discretize)
