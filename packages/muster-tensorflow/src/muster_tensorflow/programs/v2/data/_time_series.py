"""``tf.keras.utils.timeseries_dataset_from_array``, whose datasets are muster's."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.data import Dataset


@dataclass(frozen=True)
class _Sequences:
    """Sequences of the rows of an array, by number.

    Attributes:
        rows: Shape (n, ...).
        targets: One for each row that a sequence can begin at; None without.
        starts: Where sequences begin.
        places: The distances of their rows from there.
        first: The row that places are counted from.
    """

    rows: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any] | None
    starts: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    first: int

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Any:
        start = self.starts[number]
        sequence = self.rows[start + self.first + self.places]
        return sequence if self.targets is None else (sequence, self.targets[start + self.first])


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Dataset:
    """Make a dataset of sequences of consecutive rows of an array.

    Args:
        data: An array or a list of shape (n, ...).
        targets: ``targets[i]`` belongs to the sequence that begins at row i; None for sequences alone.
        sequence_length: The number of rows in a sequence.
        sequence_stride: How many rows later the next sequence begins.
        sampling_rate: How far apart the rows of a sequence lie.
        batch_size: The number of sequences in a batch; None for single ones.
        shuffle: Whether to shuffle the sequences, in each pass.
        seed: Of the shuffle.
        start_index: The first row to use; None is 0.
        end_index: The row after the last one to use; None uses all.

    Raises:
        ValueError: A number is out of its range, or there is no sequence.

    Source: keras/src/utils/timeseries_dataset_utils.py.
    """
    rows = np.asarray(data)
    first, end = start_index or 0, len(rows) if end_index is None else end_index
    if not 0 <= first < end <= len(rows):
        raise ValueError(
            f"start_index and end_index lie in 0 .. {len(rows)}, the rows of data, one below the other; got "
            f"{start_index!r} and {end_index!r}."
        )
    for name, number in (("sequence_stride", sequence_stride), ("sampling_rate", sampling_rate)):
        if not 0 < number < len(rows):
            raise ValueError(f"{name} is between 0 and {len(rows)}, the rows of data; got {number!r}.")
    labels = None if targets is None else np.asarray(targets)
    count = end - first - (sequence_length - 1) * sampling_rate
    if labels is not None:
        count = min(count, len(labels) - first)
    if count < 1:
        raise ValueError(
            f"No sequence of {sequence_length} rows, {sampling_rate} apart, lies in the {end - first} rows."
        )
    sequences = _Sequences(
        rows, labels, np.arange(0, count, sequence_stride), np.arange(sequence_length) * sampling_rate, first
    )
    dataset = Dataset.from_source(sequences)
    if shuffle:
        dataset = dataset.shuffle(len(sequences), seed)
    return dataset if batch_size is None else dataset.batch(batch_size)
