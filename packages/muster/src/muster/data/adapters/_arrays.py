"""Tables, series, tensors and lists as NumPy arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.data.adapters._kinds import is_kind, refuse
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import as_array


def as_arrays(data: Any) -> Any:
    """Return data in memory as NumPy arrays.

    A table, such as a pandas or polars DataFrame, an Arrow table or a Dataset of Hugging Face, becomes a dict
    of its columns. Series, tensors and lists of numbers or text become arrays, and text in them NumPy's.
    Dicts and tuples stay, and a list of arrays becomes a tuple.

    Args:
        data: A table, an array, or a structure of them.

    Raises:
        TypeError: There is something else in it; the message says what to write.
        DatasetError: A nested list, or a table, cannot become arrays.

    Example:
        ```python
        features, labels = muster.data.as_arrays(({"age": [39, 50]}, [0, 1]))  # or (frame, frame["label"])
        assert features["age"].tolist() == [39, 50]
        ```
    """
    if data is None or isinstance(data, np.ndarray | np.generic | SparseTensor | RaggedTensor):
        return data
    refuse(data)
    names = column_names(data)
    if names is not None:
        return _columns(data, names)
    if isinstance(data, Mapping):
        return {key: as_arrays(value) for key, value in data.items()}
    if isinstance(data, tuple):
        items = [as_arrays(item) for item in data]
        return tuple(items) if type(data) is tuple else type(data)(*items)
    if isinstance(data, list):
        return tuple(map(as_arrays, data)) if any(map(_has_rows, data)) else as_array(data)
    if isinstance(data, bool | int | float | complex | str | bytes):
        return as_array(data)
    if hasattr(data, "__array__"):
        return series_values(data)
    if is_kind(data, "datasets", "Column"):
        return series_values(data[:])
    raise TypeError(
        f"{type(data).__name__} is neither an array, a table nor a structure of them: {data!r}. Turn it into "
        "NumPy arrays."
    )


def column_names(value: Any) -> list[Any] | None:
    """Return the names of a table's columns; None for what is no table."""
    if isinstance(value, type) or not hasattr(value, "__getitem__"):
        return None
    names = getattr(value, "column_names", None)
    if names is None and any(
        hasattr(value, each) for each in ("index", "__dataframe__", "__arrow_c_stream__")
    ):
        names = getattr(value, "columns", None)
    return None if names is None else list(names)


def series_values(series: Any) -> np.ndarray[Any, Any]:
    """Return the values of a series, a tensor, or what else NumPy takes; text becomes NumPy's text."""
    if hasattr(series, "detach"):  # a tensor of PyTorch, which may be on a GPU, and have a gradient
        series = series.detach().cpu()
    values = np.asarray(series)
    if values.dtype != object or not values.size:
        return values
    items = values.tolist()
    if all(isinstance(each, str) for each in items):
        return values.astype(str)
    if all(isinstance(each, np.ndarray | list) for each in items):
        arrays = [np.asarray(each) for each in items]
        if len({each.shape for each in arrays}) == 1:
            return np.stack(arrays)  # a column of vectors
    return values


def _columns(table: Any, names: list[Any]) -> dict[str, np.ndarray[Any, Any]]:
    if hasattr(table, "with_format"):  # a Dataset of Hugging Face
        table = table.with_format("numpy")[:]
    return {str(name): series_values(table[name]) for name in names}


def _has_rows(item: Any) -> bool:
    """Return whether an item of a list is data of its own, rather than a row of one array."""
    if isinstance(item, Mapping | tuple) or column_names(item) is not None:
        return True
    return hasattr(item, "__array__") and np.ndim(item) > 0
