"""TensorFlow 1's input: iterators, transformations for ``Dataset.apply``, and files.

Source: tensorflow/python/data/experimental/ops/, and tensorflow/python/lib/io/.
"""

from collections.abc import Callable, Iterator
from typing import Any

from muster.data import AUTOTUNE, Dataset, OneShotIterator, TFRecordDataset, TFRecordOptions

Transformation = Callable[[Dataset], Dataset]


def make_one_shot_iterator(dataset: Dataset) -> OneShotIterator:
    """Return an iterator whose ``get_next()`` an input_fn returns: see `OneShotIterator`."""
    return dataset.make_one_shot_iterator()


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Transformation:
    """Shuffle, in another order each time, and repeat."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Transformation:
    """Map elements, and make batches of them."""
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def parallel_interleave(
    map_func: Callable[..., Dataset],
    cycle_length: int,
    block_length: int = 1,
    sloppy: bool = False,
    buffer_output_elements: int | None = None,
    prefetch_input_elements: int | None = None,
) -> Transformation:
    """Interleave the datasets of elements, always in one order."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def unbatch() -> Transformation:
    """Take batches apart."""
    return lambda dataset: dataset.unbatch()


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Transformation:
    """Prefetch; the step moves batches to its devices itself."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def tf_record_iterator(path: str, options: TFRecordOptions | str | None = None) -> Iterator[bytes]:
    """Yield the records of a file."""
    kind = options.compression_type if isinstance(options, TFRecordOptions) else options
    return iter(TFRecordDataset(path, kind))


def read_file(filename: str, name: str | None = None) -> bytes:
    """Return what is in a file."""
    with open(filename, "rb") as file:
        return file.read()


def write_file(filename: str, contents: str | bytes, name: str | None = None) -> None:
    """Write a file."""
    with open(filename, "wb") as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)
