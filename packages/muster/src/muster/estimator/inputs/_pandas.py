"""An input function of data frames."""

from collections.abc import Callable
from typing import Any

import numpy as np

from muster.data import Dataset, as_arrays
from muster.estimator.inputs._numpy import numpy_input_fn


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Dataset]:
    """Return an input function of a pandas DataFrame.

    Args:
        x: The features: a ``pandas.DataFrame``, whose columns become a dict of arrays.
        y: The labels: a ``pandas.Series`` with the index of ``x``, or a DataFrame, whose columns become a
            dict; None for none.
        batch_size: As for `numpy_input_fn`, and so the following.
        num_epochs: How often to read all examples.
        shuffle: Whether to shuffle the examples.
        queue_capacity: The number of examples to draw from when shuffling.
        num_threads: Accepted and ignored.
        target_column: A name that no column of ``x`` has, for the labels.

    Raises:
        TypeError: ``x`` is no DataFrame.
        ValueError: A column has the name of the labels, the indices differ, or as for `numpy_input_fn`.

    Source: ``pandas_input_fn`` (tensorflow_estimator/python/estimator/inputs/pandas_io.py).
    """
    if not (hasattr(x, "columns") and hasattr(x, "index")):
        raise TypeError(f"x must be a pandas.DataFrame; got {type(x).__name__}")
    features, labels = as_arrays(x), None
    if y is not None:
        if target_column in features:
            raise ValueError(
                f"Cannot use name {target_column} for target column: DataFrame already has a column with "
                f"that name: {list(features)}"
            )
        if not np.array_equal(x.index, y.index):
            raise ValueError(
                f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n"
            )
        labels = as_arrays(y)
    return numpy_input_fn(features, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)
