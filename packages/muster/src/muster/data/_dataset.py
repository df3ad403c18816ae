"""`Dataset`: an input pipeline of a source and operations."""

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from muster._frontend import frontend
from muster.data._arguments import integer
from muster.data._dataset_sources import DatasetSources
from muster.data._dataset_steps import DatasetSteps, node_maker
from muster.data._iterator import Convert, DatasetIterator
from muster.data._numbered import NumberedElements
from muster.data._options import Options
from muster.data.pipeline._combine import Concatenate, Zip
from muster.data.pipeline._elements import Batch, Filter, Map, Rebatch, Unbatch
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import INFINITE, UNKNOWN, Node
from muster.data.pipeline._order import Repeat, Shard, Skip, Take
from muster.data.pipeline._padding import Padding
from muster.data.pipeline._prefetch import AUTOTUNE, Prefetch
from muster.data.pipeline._shuffle import Shuffle
from muster.data.pipeline._sources import CountSource
from muster.data.pipeline._structure import flatten, map_leaves, rebuild

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN
_CYCLE = 4


class Dataset(DatasetSources["Dataset"], DatasetSteps["Dataset"]):
    """An immutable input pipeline: a source of elements, and operations on them.

    An element is a pytree of tuples, named tuples and dicts. Its leaves are NumPy arrays, NumPy scalars,
    ``str``, ``bytes`` and other Python objects. An iteration can be resumed at any element, in this process
    or another: see `iterator`.

    Data in memory is read by index: a batch is one gather per array, and a `map` that JAX can trace is one
    compiled call per batch. Everything else runs element by element in Python, with the same results in the
    same order.

    Source: tensorflow/python/data/ops/dataset_ops.py, ``DatasetV2``. The order is always deterministic;
    ``num_parallel_calls`` and ``deterministic`` are accepted and ignored.

    Example:
        ```python
        rows = Dataset.from_tensor_slices((np.arange(10.0), np.arange(10) % 2))
        batches = rows.shuffle(10, seed=1).repeat().map(lambda x, y: (x / 10, y)).batch(4).prefetch(2)
        values, labels = next(iter(batches))
        assert values.shape == labels.shape == (4,)
        ```
    """

    def __init__(self, node: Node, options: Options | None = None):
        """Wrap a pipeline. Users call `from_tensor_slices` and other constructors instead."""
        self._node = node
        self._options = Options() if options is None else options

    @staticmethod
    def _of(node: Node) -> "Dataset":
        return Dataset(node)

    # Elements

    @staticmethod
    def zip(*datasets: Any, name: str | None = None) -> "Dataset":
        """Combine the i-th elements of datasets into one element; end with the shortest dataset.

        Args:
            datasets: Datasets, or one nested structure of datasets, which the elements then have.
            name: Ignored.

        Raises:
            TypeError: A leaf is not a dataset.
        """
        template = datasets[0] if len(datasets) == 1 else datasets
        leaves = flatten(template)
        if not leaves or not all(isinstance(leaf, Dataset) for leaf in leaves):
            raise TypeError(f"zip needs datasets, or a structure of them, got {template!r}.")
        return Dataset(Zip(template, [leaf._node for leaf in leaves]), leaves[0]._options)

    def flat_map(self, map_func: Callable[..., "Dataset"], name: str | None = None) -> "Dataset":
        """Map each element to a dataset, and concatenate these datasets.

        Args:
            map_func: Takes an element, returns a dataset. It runs in Python in every pass; an iteration that
                is resumed calls it again for the elements before its position.
            name: Ignored.

        Raises:
            TypeError: `map_func` is not callable or, while iterating, does not return a dataset.
        """
        return self._then(Interleave(self._node, node_maker("flat_map", map_func), 1, sys.maxsize))

    def interleave(
        self,
        map_func: Callable[..., "Dataset"],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> "Dataset":
        """Map each element to a dataset, and interleave the elements of several of these datasets.

        Args:
            map_func: As for `flat_map`.
            cycle_length: The number of datasets to read in turn. None or `AUTOTUNE` is 4 on any machine.
            block_length: The number of elements of a turn. None is 1.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            ValueError: A length is not positive.
            TypeError: As by `flat_map`.
        """
        cycle = _CYCLE if cycle_length in (None, AUTOTUNE) else integer("cycle_length", cycle_length, 1)
        block = 1 if block_length is None else integer("block_length", block_length, 1)
        return self._then(Interleave(self._node, node_maker("interleave", map_func), cycle, block))

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> "Dataset":
        """Apply a function to each element.

        If JAX can trace the function, it is compiled and computed for a batch at a time. Its arguments are
        then JAX tracers of one element, and int64 and float64 values that it computes with become int32 and
        float32 unless jax_enable_x64 is set; values that it returns unchanged keep their type. If JAX cannot
        trace it (text, Python objects, NumPy functions, ``if`` on values, random numbers of Python or NumPy),
        it is called with the NumPy values of one element at a time. The log says which.

        It should depend only on its arguments: it is not called for skipped elements. Names outside of it
        stand for what they stand for now, as in TensorFlow, which traces it now; what they are may be fixed
        at its first call. Variables are read at each, in Python once one has changed.

        Args:
            map_func: Takes an element, returns an element. The items of a tuple are its arguments.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            TypeError: `map_func` is not callable.

        Example:
            ```python
            assert list(Dataset.range(3).map(lambda x: 2 * x)) == [0, 2, 4]
            ```
        """
        return self._then(Map(self._node, map_func))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> "Dataset":
        """Keep the elements for which `predicate` returns True. It runs as the function of `map` does.

        Raises:
            TypeError: `predicate` is not callable.
        """
        return self._then(Filter(self._node, predicate))

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> "Dataset":
        """Stack consecutive elements along a new first axis: leaves get the shape (batch_size, ...).

        Args:
            batch_size: The number of elements in a batch.
            drop_remainder: Whether to drop a last batch with fewer elements.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            ValueError: `batch_size` is not positive.
            DatasetError: While iterating: the elements of a batch differ in structure, shape or type.

        Example:
            ```python
            assert [len(rows) for rows in Dataset.range(5).batch(2)] == [2, 2, 1]
            ```
        """
        return self._then(Batch(self._node, integer("batch_size", batch_size, 1), bool(drop_remainder)))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> "Dataset":
        """Pad consecutive elements to one shape, at the end of each axis, and stack them as `batch` does.

        Args:
            batch_size: The number of elements in a batch.
            padded_shapes: A shape per leaf, in the structure of the elements. A size of None or -1, as all
                are by default, is the largest in the batch.
            padding_values: A value per leaf, in the structure of the elements, or one value for all; by
                default 0, False or empty text.
            drop_remainder: Whether to drop a last batch with fewer elements.
            name: Ignored.

        Raises:
            ValueError: `batch_size` is not positive.
            DatasetError: While iterating: elements differ in type or rank, or are larger than padded_shapes.
        """
        padding = Padding(padded_shapes, padding_values)
        return self._then(
            Batch(self._node, integer("batch_size", batch_size, 1), bool(drop_remainder), padding)
        )

    def unbatch(self, name: str | None = None) -> "Dataset":
        """Split each element along the first axis of its leaves, which undoes `batch`.

        Raises:
            DatasetError: While iterating: a leaf has no axis, or the leaves differ in length.
        """
        return self._then(Unbatch(self._node))

    def rebatch(
        self, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None
    ) -> "Dataset":
        """Change how many rows the elements have, as ``unbatch().batch(batch_size)`` does, but faster.

        Args:
            batch_size: The number of rows of a batch, or several numbers, which batches have in turn.
            drop_remainder: Whether to drop a last batch with fewer rows.
            name: Ignored.

        Raises:
            ValueError: `batch_size` is not positive, or neither a number nor a list of numbers.
            DatasetError: While iterating: a leaf has no axis, or the leaves differ in length.
        """
        rank = np.ndim(batch_size)
        if rank > 1 or np.size(batch_size) == 0:
            raise ValueError(
                "Invalid `batch_sizes`. Expected `batch_sizes` to be a scalar or a vector. Received "
                f"`batch_sizes` of rank {rank}: {batch_size!r}."
            )
        sizes = tuple(integer("batch_size", size, 1) for size in np.atleast_1d(batch_size))
        return self._then(Rebatch(self._node, sizes, bool(drop_remainder)))

    def enumerate(self, start: int = 0, name: str | None = None) -> "Dataset":
        """Pair each element i with its number: ``(start + i, element)``, where the number is an int64."""
        numbers = CountSource(integer("start", start))
        return self._then(Zip((numbers, self._node), [numbers, self._node]))

    # Order

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> "Dataset":
        """Shuffle the elements.

        Elements are drawn uniformly from a buffer, which is refilled from the input; a buffer as large as
        the dataset gives a uniform permutation. The order depends only on the seed, the number of the
        iteration, and the pass that each later `repeat` is in.

        Args:
            buffer_size: The number of elements in the buffer; True is 1, as for TensorFlow.
            seed: Any integer. None draws one from Python's random numbers at the first iteration; the
                position of an iteration has it.
            reshuffle_each_iteration: Whether iterations over this dataset, and passes of a later `repeat`,
                differ in order. None is True.
            name: Ignored.

        Raises:
            ValueError: `buffer_size` is not positive.
            TypeError: `seed` is not an integer.
        """
        if seed is not None:
            seed = integer("seed", seed)
        reshuffle = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        size = integer("buffer_size", 1 if buffer_size is True else buffer_size, 1)
        return self._then(Shuffle(self._node, size, seed, reshuffle))

    def repeat(self, count: int | None = None, name: str | None = None) -> "Dataset":
        """Repeat the elements `count` times, or without end if it is None or -1.

        Raises:
            ValueError: `count` is less than -1.
        """
        if count is not None:
            count = integer("count", count, -1)
        return self._then(Repeat(self._node, None if count == -1 else count))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> "Dataset":
        """Keep the elements i where ``i % num_shards == index``.

        Raises:
            ValueError: `num_shards` is not positive, or `index` is not in 0 .. num_shards - 1.
        """
        num_shards = integer("num_shards", num_shards, 1)
        index = integer("index", index)
        if not 0 <= index < num_shards:
            raise ValueError(
                f"shard needs 0 <= index < num_shards, got index {index} and num_shards {num_shards}."
            )
        return self._then(Shard(self._node, num_shards, index))

    def take(self, count: int, name: str | None = None) -> "Dataset":
        """Keep the first `count` elements; -1 keeps all.

        Raises:
            ValueError: `count` is less than -1.
        """
        count = integer("count", count, -1)
        return self if count == -1 else self._then(Take(self._node, count))

    def skip(self, count: int, name: str | None = None) -> "Dataset":
        """Drop the first `count` elements; -1 drops all.

        Raises:
            ValueError: `count` is less than -1.
        """
        count = integer("count", count, -1)
        return self._then(Take(self._node, 0) if count == -1 else Skip(self._node, count))

    def concatenate(self, dataset: "Dataset", name: str | None = None) -> "Dataset":
        """Append the elements of another dataset.

        Raises:
            TypeError: `dataset` is not a dataset.
            DatasetError: In `element_spec` and while iterating: elements differ in structure or type.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate needs a Dataset, got {dataset!r}.")
        return self._then(Concatenate(self._node, dataset._node))

    # How it is computed

    def prefetch(self, buffer_size: int = AUTOTUNE, name: str | None = None) -> "Dataset":
        """Compute up to `buffer_size` elements ahead of the reader, on a thread.

        Args:
            buffer_size: The number of elements; `AUTOTUNE` (-1) is 4.
            name: Ignored.

        Raises:
            ValueError: `buffer_size` is less than -1.
        """
        return self._then(Prefetch(self._node, integer("buffer_size", buffer_size, -1)))

    def apply(
        self, transformation_func: Callable[["Dataset"], "Dataset"], name: str | None = None
    ) -> "Dataset":
        """Return what a function makes of the dataset."""
        return transformation_func(self)

    def options(self) -> Options:
        """Return a copy of the options."""
        return deepcopy(self._options)

    def with_options(self, options: Options, name: str | None = None) -> "Dataset":
        """Return this dataset with other options, which later operations keep.

        Raises:
            TypeError: `options` is not an `Options`.
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options needs muster.data.Options, got {options!r}.")
        return Dataset(self._node, deepcopy(options))

    # Facts

    @property
    def element_spec(self) -> Any:
        """Structure of `TensorSpec` of one element.

        The function of a `map` that runs in Python is applied to the first element for the types; shapes are
        then unknown.
        """
        return self._node.element_spec

    @property
    def is_constant(self) -> bool:
        """True if every pass has the same elements in the same order, as far as muster can know.

        False if they are shuffled, come from a generator, or are made by a function that runs in Python.
        """
        return self._node.is_constant

    @property
    def output_types(self) -> Any:
        """Structure of the dtypes of one element, as TensorFlow 1 names it."""
        return map_leaves(lambda spec: spec.dtype, self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """Structure of the shapes of one element, None for an unknown one; `padded_batch` takes it."""
        spec = self.element_spec
        return rebuild(spec, [leaf.shape for leaf in flatten(spec)])

    def cardinality(self) -> int:
        """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`."""
        return self._node.cardinality

    def __len__(self) -> int:
        """Return the number of elements.

        Raises:
            TypeError: The number is infinite or unknown.
        """
        count = self._node.cardinality
        if count < 0:
            kind = "infinite" if count == INFINITE else "unknown"
            raise TypeError(f"the length of this dataset is {kind}: {self._node.description}")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Dataset {self._node.description}>"

    # Reading

    def iterator(
        self,
        position: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        convert: Convert | None = None,
    ) -> DatasetIterator:
        """Begin an iteration, or resume one.

        Args:
            position: `DatasetIterator.position` of an iteration over an equal pipeline, in this process or
                another, to continue with its next element. Arrays are read only from there on; generators,
                `filter` and `unbatch` run again from the start.
            seed: Seeds the shuffles without a seed; None seeds them at random. A position contains the seeds.
            convert: Takes elements that are read together, such as several small batches, and returns what
                the iterator yields for each. It is called where elements are made, which is a thread of its
                own after `prefetch`, and is no part of the pipeline: positions stay valid with another.

        Raises:
            PositionError: `position` belongs to another pipeline or, at the first element, the pipeline has
                fewer elements than before.

        Example:
            ```python
            numbers = Dataset.range(5)
            with numbers.iterator() as first:
                next(first), next(first)
                position = first.position  # for JSON
            assert next(numbers.iterator(position)) == 2
            ```
        """
        return DatasetIterator(self._node, position, seed, convert)

    def numbered(
        self,
        position: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        convert: Convert | None = None,
    ) -> NumberedElements:
        """Begin a pass whose elements are read by their number, or take part in one.

        Args:
            position: The `position` of any element of a pass over an equal pipeline; None begins one.
            seed: As for `iterator`.
            convert: As for `iterator`.

        Raises:
            PositionError: `position` belongs to another pipeline.
        """
        return NumberedElements(self._node, position, seed, convert)

    def __iter__(self) -> DatasetIterator:
        return self.iterator(convert=frontend().elements)

    def as_numpy_iterator(self) -> DatasetIterator:
        """Begin an iteration. Elements are always NumPy values."""
        return self.iterator()

    def _then(self, node: Node) -> "Dataset":
        return Dataset(node, self._options)
