"""Turn input of other libraries into a dataset of batches, or arrays in memory."""

from typing import Any

from muster.data._dataset import Dataset
from muster.data.adapters._loaders import yields_batches


def dataset_of_batches(data: Any) -> Dataset | None:
    """Return a dataset of the batches of a loader, a generator or a list of batches; None for other data."""
    if isinstance(data, Dataset):
        return data
    return Dataset.from_loader(data) if yields_batches(data) else None
