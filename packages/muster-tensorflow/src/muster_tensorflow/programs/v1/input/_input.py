"""TensorFlow 1's input: iterators, transformations for ``Dataset.apply``, and files.

Source: tensorflow/python/data/experimental/ops/, and tensorflow/python/lib/io/.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from muster.data import (
    AUTOTUNE,
    Dataset,
    Placeholder,
    TFRecordDataset,
    TFRecordOptions,
    TFRecordWriter,
    parse_example,
)
from muster.extend import local_path

Transformation = Callable[[Dataset], Dataset]


def placeholder_with_default(
    input: Any, shape: Iterable[int | None] | int | None, name: str | None = None
) -> Placeholder:
    """Return a placeholder for values of a default's dtype, as a ``ServingInputReceiver`` has.

    Each request gives the values: the default itself is unused.

    Args:
        input: The default.
        shape: As for `Placeholder`.
        name: A name for people to read.

    Source: tensorflow/python/ops/array_ops.py, ``placeholder_with_default``.
    """
    return Placeholder(np.asarray(input).dtype, shape, name)


def transformation(method: str) -> Callable[..., Transformation]:
    """Return a function that makes, of the arguments of a method of Dataset, something for ``Dataset.apply``.

    Args:
        method: The method's name.
    """

    def transform(*args: Any, **kwargs: Any) -> Transformation:
        return lambda dataset: cast(Dataset, getattr(dataset, method)(*args, **kwargs))

    transform.__name__ = transform.__qualname__ = method
    transform.__doc__ = f"Return a transformation that calls `Dataset.{method}` with these arguments."
    return transform


class DatasetWriter:
    """``tf.data.experimental.TFRecordWriter``: writes the elements of a dataset to a TFRecord file.

    Args:
        filename: The path of the file; an existing file is replaced.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
    """

    def __init__(self, filename: str | os.PathLike[str], compression_type: str | None = None) -> None:
        self._path, self._options = filename, TFRecordOptions(compression_type)

    def write(self, dataset: Dataset) -> None:
        """Write a file of the elements of a dataset, which are bytes.

        Raises:
            TypeError: An element is not bytes.
        """
        with TFRecordWriter(self._path, self._options) as writer:
            for element in dataset:
                writer.write(element.item() if isinstance(element, np.ndarray) else element)


def batch_and_drop_remainder(batch_size: int) -> Transformation:
    """Make batches, without a last one that is smaller."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Make padded batches, without a last one that is smaller."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, True)


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


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Transformation:
    """Prefetch; the step moves batches to its devices itself."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """Leave the dataset as it is: the step moves batches to its devices itself."""
    return lambda dataset: dataset


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[..., Dataset] = TFRecordDataset,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Make a dataset of batches of parsed ``tf.train.Example``: a dict of features, or a pair with a label.

    Args:
        file_pattern: A glob pattern, or a list of them.
        batch_size: The number of examples in a batch.
        features: As for `parse_example`.
        reader: Makes a dataset of the records of files.
        label_key: The feature that is the label; None for none.
        reader_args: More arguments of `reader`.
        num_epochs: The number of passes; None repeats without end.
        shuffle: Whether to shuffle.
        shuffle_buffer_size: `buffer_size` of the shuffle.
        shuffle_seed: Its seed.
        prefetch_buffer_size: The number of batches to read ahead; by default 1.
        reader_num_threads: Accepted and ignored, as the next two.
        parser_num_threads: Ignored.
        sloppy_ordering: Ignored.
        drop_final_batch: Whether to drop a last batch that is not full.

    Raises:
        ValueError: `features` does not have the label.
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be in the features: {[*features]}.")
    dataset = reader(list(Dataset.list_files(file_pattern, shuffle=False)), *(reader_args or ()))
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)

    def parse(records: Any) -> Any:
        parsed = parse_example(records, dict(features))
        return parsed if label_key is None else (parsed, parsed.pop(label_key))

    batches = dataset.repeat(num_epochs).batch(batch_size, drop_final_batch).map(parse)
    return batches.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)


class TFRecordCompressionType:
    """The compression types of TFRecord files, for ``TFRecordOptions``."""

    NONE = ""
    ZLIB = "ZLIB"
    GZIP = "GZIP"


def tf_record_iterator(path: str, options: TFRecordOptions | str | None = None) -> Iterator[bytes]:
    """Yield the records of a file."""
    kind = options.compression_type if isinstance(options, TFRecordOptions) else options
    return iter(TFRecordDataset(path, kind))


def read_file(filename: Any, name: str | None = None) -> bytes:
    """Return what is in a file, whose path may be an array of one text."""
    with open(local_path(_plain(filename)), "rb") as file:
        return file.read()


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Write a file; both may be arrays of one text."""
    written = _plain(contents)
    with open(local_path(_plain(filename)), "wb") as file:
        file.write(written.encode() if isinstance(written, str) else written)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) else value
