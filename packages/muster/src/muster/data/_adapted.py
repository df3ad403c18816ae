"""Turn input of other libraries into a dataset of batches, or arrays in memory."""

from typing import Any

from muster.data._dataset import Dataset
from muster.data.adapters._arrays import column_names
from muster.data.adapters._kinds import line_for, whole_line
from muster.data.adapters._loaders import yields_batches


def dataset_of_batches(data: Any) -> Dataset | None:
    """Return a dataset of the batches of a loader, a generator or a list of batches; None for other data."""
    if isinstance(data, Dataset):
        return data
    return Dataset.from_loader(data) if yields_batches(data) else None


def dataset_line(data: Any) -> str:
    """Return a sentence with the line that makes a dataset of data, with a space before it; "" for others."""
    if type(data).__module__.startswith("muster"):
        return ""
    line = whole_line(data) or line_for(data)
    if line is None and yields_batches(data):
        line = "muster.data.Dataset.from_loader(data)"
    in_memory = isinstance(data, dict | tuple) or hasattr(data, "__array__") or column_names(data) is not None
    if line is None and in_memory:
        line = "muster.data.Dataset.from_tensor_slices(muster.data.as_arrays(data)).batch(32)"
    return "" if line is None else f" Of this data write: {line}"
