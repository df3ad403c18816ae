"""TensorFlow 1's input of queues, built on datasets: an input_fn returns the values of a batch.

A queue is a dataset, what is read of it another one, and values stand for those of each element, as those of
``get_next`` do. There are no threads to start: `Dataset` reads ahead.

Source: tensorflow/python/training/input.py, and tensorflow/python/ops/io_ops.py.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from muster.data import (
    Dataset,
    FixedLengthRecordDataset,
    TextLineDataset,
    TFRecordDataset,
    TFRecordOptions,
)
from muster.extend import local_path
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._one_shot import NextValue, OneShotIterator, as_dataset


class InputQueue:
    """Gives a reader the elements of ``tf.train.string_input_producer``, one after the other.

    Args:
        dataset: Its elements.
        name: Its name.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.dataset = dataset
        self.name = name

    def dequeue(self, name: str | None = None) -> Any:
        """Return what stands for the next element."""
        return OneShotIterator(self.dataset).get_next()

    def dequeue_many(self, n: int, name: str | None = None) -> Any:
        """Return what stands for the next ``n`` elements, as one batch."""
        return OneShotIterator(self.dataset.batch(n, drop_remainder=True)).get_next()

    def dequeue_up_to(self, n: int, name: str | None = None) -> Any:
        """Return what stands for the next ``n`` elements, fewer at the end."""
        return OneShotIterator(self.dataset.batch(n)).get_next()


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: object = None,
) -> InputQueue:
    """Return a queue of the rows of an array, or of the rows of each array of a tuple.

    Args:
        input_tensor: The array.
        element_shape: Unused.
        num_epochs: How often each row comes; None repeats without end.
        shuffle: Whether rows come in another order in each epoch.
        seed: Of the order.
        capacity: Unused.
        shared_name: Unused.
        summary_name: Unused.
        name: The queue's name.
        cancel_op: Unused.

    Raises:
        ValueError: There are no rows.
    """
    rows = Dataset.from_tensor_slices(input_tensor)
    count = int(rows.cardinality())
    if not count:
        raise ValueError(f"{name or 'input_producer'} requires a non-null input tensor")
    if shuffle:
        rows = rows.shuffle(count, seed)
    return InputQueue(rows.repeat(num_epochs), name or "input_producer")


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: object = None,
) -> InputQueue:
    """Return a queue of texts, such as names of files; arguments as of `input_producer`."""
    if isinstance(string_tensor, list | tuple):
        string_tensor = [os.fspath(each) for each in string_tensor]
    texts = as_array(string_tensor)
    return input_producer(np.ravel(texts), None, num_epochs, shuffle, seed, name=name or "input_producer")


def range_input_producer(
    limit: int,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> InputQueue:
    """Return a queue of the numbers below ``limit``, int32; arguments as of `input_producer`."""
    numbers = np.arange(int(limit), dtype=np.int32)
    return input_producer(numbers, None, num_epochs, shuffle, seed, name=name or "range_input_producer")


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Any]:
    """Return what stands for a row of each array; arguments as of `input_producer`.

    Raises:
        ValueError: There are no arrays.
    """
    if not tensor_list:
        raise ValueError("Expected at least one tensor in slice_input_producer(), and got an empty list.")
    arrays = tuple(as_array(each) for each in tensor_list)
    return list(input_producer(arrays, None, num_epochs, shuffle, seed, name=name).dequeue())


class ReaderBase:
    """A reader of the files, or other values, of a queue.

    Args:
        records: Takes the name of a file; returns the dataset of its records.
        first: The number of the first record.
    """

    def __init__(self, records: Callable[[Any], Dataset], first: int = 0) -> None:
        self._records = records
        self._first = first

    def _keyed(self, queue: InputQueue) -> Dataset:
        def of_file(file: Any) -> Dataset:
            path = _text(file)
            records = self._records(path)
            return records.enumerate(self._first).map(lambda number, record: (f"{path}:{number}", record))

        return queue.dataset.flat_map(of_file)

    def read(self, queue: InputQueue, name: str | None = None) -> tuple[Any, Any]:
        """Return what stands for the next record: its key, such as ``"a.csv:7"``, and itself."""
        key, value = InputQueue(self._keyed(queue), "").dequeue()
        return key, value

    def read_up_to(self, queue: InputQueue, num_records: int, name: str | None = None) -> tuple[Any, Any]:
        """Return what stands for the next ``num_records``, fewer at the end, and of their keys."""
        keys, values = InputQueue(self._keyed(queue), "").dequeue_up_to(num_records)
        return keys, values


class TextLineReader(ReaderBase):
    """Reads lines of text files.

    Args:
        skip_header_lines: How many lines of each file to leave out.
        name: Unused.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        skipped = skip_header_lines or 0
        super().__init__(lambda path: TextLineDataset(path).skip(skipped), skipped + 1)


class TFRecordReader(ReaderBase):
    """Reads records of TFRecord files.

    Args:
        name: Unused.
        options: ``TFRecordOptions``.
    """

    def __init__(self, name: str | None = None, options: TFRecordOptions | None = None) -> None:
        kind = None if options is None else options.compression_type
        super().__init__(lambda path: TFRecordDataset(path, kind))


class FixedLengthRecordReader(ReaderBase):
    """Reads records of one size.

    Args:
        record_bytes: Their size.
        header_bytes: The size of what comes before them in a file.
        footer_bytes: The size of what comes after them.
        hop_bytes: Only None, 0 or ``record_bytes``: records lie beside each other.
        name: Unused.
        encoding: Of the files: empty or None, ``"GZIP"`` or ``"ZLIB"``.

    Raises:
        ValueError: Records overlap, or have gaps.
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        if hop_bytes not in (None, 0, record_bytes):
            raise ValueError("hop_bytes must be record_bytes here. Use Dataset.map on whole files.")
        super().__init__(
            lambda path: FixedLengthRecordDataset(
                path, record_bytes, header_bytes, footer_bytes, compression_type=encoding
            )
        )


class WholeFileReader(ReaderBase):
    """Reads whole files, whose keys are their names."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Dataset.from_tensors)

    def _keyed(self, queue: InputQueue) -> Dataset:
        def read(file: Any) -> tuple[Any, bytes]:
            with open(local_path(_text(file)), "rb") as opened:
                return file, opened.read()

        return queue.dataset.map(read)


class IdentityReader(ReaderBase):
    """Returns the values of the queue, as keys and as records."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Dataset.from_tensors)

    def _keyed(self, queue: InputQueue) -> Dataset:
        return queue.dataset.map(lambda value: (value, value))


def batch(
    tensors: Any,
    batch_size: int,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return what stands for batches of values, in a list or a dict as they are.

    Args:
        tensors: A list or a dict of values that stand for those of each element.
        batch_size: The rows of a batch.
        num_threads: Unused.
        capacity: Unused.
        enqueue_many: Whether values have rows of several examples already.
        shapes: Unused.
        dynamic_pad: Whether to pad values of different sizes, with zeros.
        allow_smaller_final_batch: Whether there is a last batch of what is left.
        shared_name: Unused.
        name: Unused.

    Returns:
        As ``tensors``; of a list of one value that value.
    """
    dataset = _examples(tensors, enqueue_many)
    grouped = dataset.padded_batch if dynamic_pad else dataset.batch
    batches = grouped(batch_size, drop_remainder=not allow_smaller_final_batch)
    return _values(tensors, batches)


def shuffle_batch(
    tensors: Any,
    batch_size: int,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return what stands for batches of shuffled values; see `batch`.

    Args:
        tensors: A list or a dict of values that stand for those of each element.
        batch_size: The rows of a batch.
        capacity: How many examples are shuffled with each other.
        min_after_dequeue: Unused.
        num_threads: Unused.
        seed: Of the order.
        enqueue_many: Whether values have rows of several examples already.
        shapes: Unused.
        allow_smaller_final_batch: Whether there is a last batch of what is left.
        shared_name: Unused.
        name: Unused.
    """
    shuffled = _examples(tensors, enqueue_many).shuffle(capacity, seed)
    return _values(tensors, shuffled.batch(batch_size, not allow_smaller_final_batch))


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """Return a value, or what stands for it for ``num_epochs`` elements."""
    if num_epochs is None:
        return tensor
    if isinstance(tensor, NextValue):
        return _values(tensor, as_dataset(tensor).take(num_epochs))
    return InputQueue(Dataset.from_tensors(as_array(tensor)).repeat(num_epochs), "").dequeue()


def _examples(tensors: Any, enqueue_many: bool) -> Dataset:
    dataset: Dataset = as_dataset(_plain(tensors))
    return dataset.unbatch() if enqueue_many else dataset


def _plain(tensors: Any) -> Any:
    """Return values in a dict, a tuple, or of a list of one value that one."""
    if isinstance(tensors, dict | NextValue):
        return tensors
    values = tuple(tensors)
    return values[0] if len(values) == 1 else values


def _values(tensors: Any, dataset: Dataset) -> Any:
    made = InputQueue(dataset, "").dequeue()
    return list(made) if isinstance(made, tuple) and isinstance(tensors, Iterable) else made


def _text(value: Any) -> str:
    plain = value.item() if isinstance(value, np.ndarray | np.generic) else value
    return plain.decode() if isinstance(plain, bytes) else str(plain)
