"""The first batch of the data of ``fit``, ``evaluate`` and ``predict``, looked at before the first step."""

import itertools
import types
from typing import Any

import jax
import numpy as np

from muster._keras import keras
from muster.distribute.fit._fit_input import FitInput, KerasBatches

_BATCH_SIZE = 32  # Keras' default


class SingleBatch(KerasBatches):
    """Draws the batch of ``train_on_batch`` and the like in the form that ``fit`` would draw it in."""

    def _read(self) -> Any:
        batch = super()._read()
        return None if batch is None else packed(batch)


def packed(batch: Any) -> Any:
    """Return a batch without labels and weights that are None, and inputs that are alone not in a tuple."""
    return keras.utils.pack_x_y_sample_weight(*keras.utils.unpack_x_y_sample_weight(batch))


def peeked(data: Any) -> tuple[Any, Any]:
    """Return the first batch of a generator, and a generator of all batches; None, if there is none.

    Args:
        data: What Keras takes as ``x``.

    Returns:
        For a dataset its first batch as the steps get it, where Keras has a tuple, and the data; (None, the
        data) if the data is neither.
    """
    if isinstance(data, FitInput):
        return data[0], data
    if not isinstance(data, types.GeneratorType):
        return None, data
    first = next(data, None)
    return first, data if first is None else (batch for batch in itertools.chain([first], data))


def first_to_predict(data: Any, batch_size: int | None) -> Any:
    """Return the first batch of what ``predict`` takes, but for a generator."""
    if isinstance(data, keras.utils.PyDataset):
        return data[0]
    if all(hasattr(leaf, "shape") for leaf in jax.tree.leaves(data)):
        return keras.utils.pack_x_y_sample_weight(first_rows(data, batch_size))
    return next(iter(data))


def first_rows(data: Any, batch_size: int | None = None) -> Any:
    """Return the rows of arrays that the first batch may have."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[: batch_size or _BATCH_SIZE]), data)


def first_of_epoch(iterator: Any) -> Any:
    """Return the first batch of one of Keras' iterators over epochs, which is begun anew afterwards.

    Keras looks at it likewise to build what is not built yet, so that data is shuffled in the same order.
    """
    for _, _, batches in iterator:
        return next(batches, None)
    return None
