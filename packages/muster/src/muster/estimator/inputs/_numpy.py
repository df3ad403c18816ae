"""Input functions of NumPy arrays and data frames."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from muster.data import Dataset, as_arrays


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Dataset]:
    """Return an input function of arrays in memory.

    Batches run on over the ends of epochs, so that only the last one may be smaller.

    Args:
        x: The features: an array, or a dict of arrays, of one length.
        y: The labels: an array of that length, or a dict of arrays; None for none.
        batch_size: The number of examples in a batch.
        num_epochs: How often to read all examples; None reads them without end.
        shuffle: Whether to shuffle the examples, in each epoch anew; it must be said.
        queue_capacity: The number of examples to draw from when shuffling.
        num_threads: Accepted and ignored.

    Returns:
        A function without arguments that returns a Dataset of batches: of ``x``, or of pairs ``(x, y)``.

    Raises:
        TypeError: ``x`` is neither an array nor a dict.
        ValueError: ``shuffle`` is not True or False, a dict is empty, features and labels share a key, or
            arrays differ in length.

    Source: ``numpy_input_fn`` (tensorflow_estimator/python/estimator/inputs/numpy_io.py).

    Example:
        ```python
        x, y = {"age": np.array([30.0, 40.0, 50.0])}, np.array([0, 1, 1])
        input_fn = muster.estimator.numpy_input_fn(x, y, batch_size=2, num_epochs=1, shuffle=False)
        features, labels = next(iter(input_fn()))
        assert features["age"].tolist() == [30.0, 40.0]
        ```
    """
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
            f"training); got {shuffle}"
        )
    features = _checked_features(x)
    labels = _checked_labels(y)
    if isinstance(features, dict) and isinstance(labels, dict) and (both := features.keys() & labels.keys()):
        raise ValueError(
            f"{len(both)} duplicate keys are found in both x and y. x keys: {list(features)}, y keys: "
            f"{list(labels)}. Duplicate keys: {sorted(both)}"
        )
    shapes = [
        {key: each.shape for key, each in part.items()} if isinstance(part, dict) else {"": part.shape}
        for part in (features, labels)
        if part is not None
    ]
    if len({shape[:1] for part in shapes for shape in part.values()}) != 1:
        raise ValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the same length. "
            f"Shapes in x: {shapes[0]}; shapes in y: {shapes[1] if y is not None else None}."
        )
    if batch_size < 1:
        raise ValueError(f"Invalid batch_size {batch_size}. It must be at least 1.")
    elements = features if labels is None else (features, labels)

    def input_fn() -> Dataset:
        dataset = Dataset.from_tensor_slices(elements)
        if shuffle:
            dataset = dataset.shuffle(queue_capacity)
        return dataset.repeat(num_epochs).batch(batch_size)

    return input_fn


def _checked_features(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x
    if not isinstance(x, Mapping):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if not x:
        raise ValueError("x cannot be an empty dict")
    return {key: np.asarray(value) for key, value in x.items()}


def _checked_labels(y: Any) -> Any:
    if y is None:
        return None
    if not isinstance(y, Mapping):
        return np.asarray(y)
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    return {key: np.asarray(value) for key, value in y.items()}


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
