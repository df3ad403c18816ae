"""The public description of an input pipeline: operations on what a source gives."""

import builtins
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from muster.data._arguments import integer
from muster.data._dataset_sources import DatasetSources
from muster.data._iterator import DatasetIterator
from muster.data._options import Options
from muster.data.pipeline._cache import Cache
from muster.data.pipeline._combine import Concatenate, Zip
from muster.data.pipeline._elements import Batch, Filter, Map, Unbatch
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import INFINITE, UNKNOWN, Node
from muster.data.pipeline._order import Repeat, Shard, Skip, Take
from muster.data.pipeline._padding import Padding
from muster.data.pipeline._prefetch import AUTOTUNE, Prefetch
from muster.data.pipeline._shuffle import Shuffle
from muster.data.pipeline._sources import RangeSource
from muster.data.pipeline._structure import flatten

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN
_CYCLE = 4


class Dataset(DatasetSources["Dataset"]):
    """An input pipeline: a source and operations on its elements. Immutable.

    Elements are nested tuples, named tuples and dicts of NumPy arrays, NumPy scalars, text and Python
    objects. Every iteration can be stopped and gone on with, exactly, elsewhere: see `iterator`.

    What is in memory is read by index: however operations are combined, a batch is one gather per
    array, and a `map` that JAX can trace is one compiled call per batch. All else runs element by
    element in Python. Results and their order are the same either way.

    Source: tensorflow/python/data/ops/dataset_ops.py, ``DatasetV2``. Order is always deterministic;
    ``num_parallel_calls`` and ``deterministic`` are accepted and change nothing.
    """

    def __init__(self, node: Node, options: Options | None = None):
        """Wrap a pipeline; users call `from_tensor_slices` and its like."""
        self._node = node
        self._options = Options() if options is None else options

    @staticmethod
    def _of(node: Node) -> "Dataset":
        return Dataset(node)

    # Elements

    @staticmethod
    def zip(*datasets: Any, name: str | None = None) -> "Dataset":
        """Put the elements of several datasets side by side, as many as the shortest has.

        Args:
            datasets: Datasets, or one nested structure of them, whose form the elements have.
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
        """Read, one after the other, the datasets that a function makes of the elements.

        Args:
            map_func: Takes an element, in Python; returns a dataset. It is called in each pass, and on the
                way to a position.
            name: Ignored.

        Raises:
            TypeError: `map_func` cannot be called, or, while iterating, returns no dataset.
        """
        return self._then(Interleave(self._node, _node_maker("flat_map", map_func), 1, sys.maxsize))

    def interleave(
        self,
        map_func: Callable[..., "Dataset"],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> "Dataset":
        """Read in turn from several of the datasets that a function makes of the elements.

        Args:
            map_func: As of `flat_map`.
            cycle_length: How many are read in turn; None or `AUTOTUNE` is 4, wherever it runs.
            block_length: How many elements one gives in its turn; None is 1.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            ValueError: A length is not positive.
            TypeError: As by `flat_map`.
        """
        cycle = _CYCLE if cycle_length in (None, AUTOTUNE) else integer("cycle_length", cycle_length, 1)
        block = 1 if block_length is None else integer("block_length", block_length, 1)
        return self._then(Interleave(self._node, _node_maker("interleave", map_func), cycle, block))

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> "Dataset":
        """Apply a function to each element.

        If JAX can trace it, it is compiled and computed for a whole batch at a time. Then it sees JAX
        tracers of one element, and int64 and float64 values that it computes with become int32 and
        float32 unless jax_enable_x64 is set; values that it passes on keep their type. If JAX cannot
        trace it (text, Python objects, NumPy functions, ``if`` on values, random numbers of Python or
        NumPy), it is called with the NumPy values of each element. The log says which way was taken.

        It should depend on its arguments alone: it is called when an element is needed, not for one that
        is skipped, and what it reads elsewhere may be fixed at its first call, as in TensorFlow.

        Args:
            map_func: Takes an element; a tuple is spread over its arguments. Returns an element.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            TypeError: `map_func` cannot be called.
        """
        return self._then(Map(self._node, map_func))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> "Dataset":
        """Keep the elements for which `predicate` returns True. It is run as `map` runs its function.

        Raises:
            TypeError: `predicate` cannot be called.
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
        """Stack consecutive elements.

        Args:
            batch_size: Elements in a batch.
            drop_remainder: Whether a last batch with fewer elements is left out.
            num_parallel_calls: Accepted and ignored.
            deterministic: Accepted and ignored.
            name: Ignored.

        Raises:
            ValueError: `batch_size` is not positive.
            DatasetError: While iterating: the elements of a batch differ in structure, shape or type.
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
        """Pad consecutive elements at their ends to the same shape, and stack them.

        Args:
            batch_size: Elements in a batch.
            padded_shapes: Structure of shapes as the elements have; None or -1 is as long as the longest
                in the batch, which is also what the default means for every axis.
            padding_values: Structure of values as the elements have, or one for all; by default 0, False
                or empty text.
            drop_remainder: Whether a last batch with fewer elements is left out.
            name: Ignored.

        Raises:
            ValueError: `batch_size` is not positive.
            DatasetError: While iterating: elements differ in type or rank, or are longer than asked for.
        """
        padding = Padding(padded_shapes, padding_values)
        return self._then(
            Batch(self._node, integer("batch_size", batch_size, 1), bool(drop_remainder), padding)
        )

    def unbatch(self, name: str | None = None) -> "Dataset":
        """Cut each element into its rows.

        Raises:
            DatasetError: While iterating: a component has no first axis, or their lengths differ.
        """
        return self._then(Unbatch(self._node))

    def enumerate(self, start: int = 0, name: str | None = None) -> "Dataset":
        """Number the elements: ``(start + i, element)``, int64."""
        start = integer("start", start)
        numbers = RangeSource(builtins.range(start, start + sys.maxsize), np.dtype(np.int64))
        return self._then(Zip((numbers, self._node), [numbers, self._node]))

    # Order

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> "Dataset":
        """Bring the elements into random order.

        Each element is drawn uniformly from a buffer that is filled up with the next input; a buffer of
        the dataset's size or more gives a uniform permutation. The order follows from the seed, the number
        of the iteration and that of each `repeat` around it, and is the same for all datasets with the
        same seed.

        Args:
            buffer_size: Elements in the buffer.
            seed: Any integer; None draws one at the first iteration and keeps it in the position.
            reshuffle_each_iteration: Whether each iteration over this dataset, and each pass of a
                `repeat`, has another order. None is True.
            name: Ignored.

        Raises:
            ValueError: `buffer_size` is not positive.
            TypeError: `seed` is not an integer.
        """
        if seed is not None:
            seed = integer("seed", seed)
        reshuffle = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        return self._then(Shuffle(self._node, integer("buffer_size", buffer_size, 1), seed, reshuffle))

    def repeat(self, count: int | None = None, name: str | None = None) -> "Dataset":
        """Go through the elements `count` times; None or -1 for ever.

        Raises:
            ValueError: `count` is less than -1.
        """
        if count is not None:
            count = integer("count", count, -1)
        return self._then(Repeat(self._node, None if count == -1 else count))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> "Dataset":
        """Keep element i where ``i % num_shards == index``.

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
        """Leave out the first `count` elements; -1 leaves out all.

        Raises:
            ValueError: `count` is less than -1.
        """
        count = integer("count", count, -1)
        return self._then(Take(self._node, 0) if count == -1 else Skip(self._node, count))

    def concatenate(self, dataset: "Dataset", name: str | None = None) -> "Dataset":
        """Append the elements of another dataset.

        Raises:
            TypeError: `dataset` is not a dataset.
            DatasetError: When its spec is asked for or it is read: its elements differ in structure or type.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate needs a Dataset, got {dataset!r}.")
        return self._then(Concatenate(self._node, dataset._node))

    # How it is computed

    def cache(self, filename: str = "", name: str | None = None) -> "Dataset":
        """Keep the elements in memory once they are computed, for all iterations over this dataset.

        The order that is kept is that of the first iteration: put `shuffle` after `cache`. Arrays that
        no `map` has changed are not copied.

        Raises:
            ValueError: `filename` is given; elements are kept in memory only.
        """
        if filename:
            raise ValueError(
                f"cache keeps elements in memory only, got filename {filename!r}. Call cache() without it, "
                "or save the elements with NumPy and read them with from_tensor_slices."
            )
        return self._then(Cache(self._node))

    def prefetch(self, buffer_size: int = AUTOTUNE, name: str | None = None) -> "Dataset":
        """Compute up to `buffer_size` elements ahead of the reader, on a thread.

        Args:
            buffer_size: How many; 0 for none; `AUTOTUNE` (-1) for a few.
            name: Ignored.

        Raises:
            ValueError: `buffer_size` is less than -1.
        """
        return self._then(Prefetch(self._node, integer("buffer_size", buffer_size, -1)))

    def options(self) -> Options:
        """Return a copy of the options."""
        return deepcopy(self._options)

    def with_options(self, options: Options, name: str | None = None) -> "Dataset":
        """Return this dataset with other options, which operations on it hand on.

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

        Where a `map` runs in Python, its function is applied to the first element to learn the types,
        and the shapes are unknown.
        """
        return self._node.element_spec

    def cardinality(self) -> int:
        """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`."""
        return self._node.cardinality

    def __len__(self) -> int:
        """Return the number of elements.

        Raises:
            TypeError: It is infinite or unknown.
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
        self, position: Mapping[str, Any] | None = None, *, seed: int | None = None
    ) -> DatasetIterator:
        """Begin an iteration, or go on with one.

        Args:
            position: `DatasetIterator.position` of an iteration over an equal pipeline, in this process
                or another. The first element is then the one that came next there. Arrays in memory are
                not read again to get there; a generator, `filter` and `unbatch` are.
            seed: Where shuffles without a seed get theirs from; None draws them at random. A position
                has the seeds in it.

        Raises:
            PositionError: `position` belongs to another pipeline. If there is less data than there was,
                it is raised at the first element.
        """
        return DatasetIterator(self._node, position, seed)

    def __iter__(self) -> DatasetIterator:
        return self.iterator()

    def as_numpy_iterator(self) -> DatasetIterator:
        """Begin an iteration. Elements are NumPy values in any case."""
        return self.iterator()

    def _then(self, node: Node) -> "Dataset":
        return Dataset(node, self._options)


def _node_maker(operation: str, map_func: Callable[..., Dataset]) -> Callable[..., Node]:
    if not callable(map_func):
        raise TypeError(f"{operation} needs a function, got {map_func!r}.")

    def make(*element: Any) -> Node:
        made = map_func(*element)
        if not isinstance(made, Dataset):
            raise TypeError(f"The function of {operation} must return a Dataset, it returned {made!r}.")
        return made._node

    return make
