"""Methods of `Dataset` for stateful operations, such as windows, and for reducing a whole dataset."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster._frontend import frontend
from muster._paths import local_path
from muster.data._arguments import integer
from muster.data._iterator import DatasetIterator
from muster.data.files._element_files import ELEMENTS, FileCache, write_elements
from muster.data.pipeline._cache import Cache
from muster.data.pipeline._elements import Batch, WithoutErrors
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._in_order import (
    InOrder,
    ListSource,
    groups,
    resampled,
    unrepeated,
    windows,
)
from muster.data.pipeline._map import spread
from muster.data.pipeline._names_now import users_function
from muster.data.pipeline._node import UNKNOWN, Node, RandomOrder
from muster.data.pipeline._order import Counted
from muster.data.pipeline._padding import RaggedRows
from muster.data.pipeline._spec import TensorSpec, as_element
from muster.data.pipeline._structure import flatten, flatten_as, form, map_leaves, rebuild

DatasetType = TypeVar("DatasetType", bound="DatasetSteps[Any]")


class DatasetSteps(ABC, Generic[DatasetType]):
    """Operations of `Dataset` that read elements in their order. To go on at a position they read again."""

    _node: Node

    @staticmethod
    @abstractmethod
    def _of(node: Node) -> DatasetType:
        """Make a dataset of a source."""

    @abstractmethod
    def _then(self, node: Node) -> DatasetType:
        """Make a dataset of an operation on this one, with its options."""

    @abstractmethod
    def __iter__(self) -> DatasetIterator:
        """Begin an iteration."""

    # One element after the other

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> DatasetType:
        """Leave out the elements that cannot be computed, because their data is wrong.

        An error that a program's mistake makes, such as a name that is not defined, is raised as ever.

        Args:
            log_warning: Whether each error is logged; else the first one of each pass is.
            name: Ignored.

        Source: ``ignore_errors`` (tensorflow/python/data/ops/dataset_ops.py).
        """
        return self._then(WithoutErrors(self._node, log_warning))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> DatasetType:
        """Return windows of consecutive elements: each is a dataset, or a structure of one for each leaf.

        Args:
            size: The number of elements in a window.
            shift: How many elements later the next window begins; None is `size`.
            stride: How far apart the elements of a window lie.
            drop_remainder: Whether to drop windows with fewer elements, at the end.
            name: Ignored.

        Raises:
            ValueError: A number is not positive.

        Source: ``window`` (tensorflow/python/data/ops/dataset_ops.py).
        """
        size, stride = integer("size", size, 1), integer("stride", stride, 1)
        step = size if shift is None else integer("shift", shift, 1)
        node, span = self._node, (size - 1) * stride + 1

        def count(known: int) -> int:
            if known < 0:
                return known
            return max(0, (known - span) // step + 1) if drop_remainder else -(-known // step)

        def datasets(elements: Iterator[Any]) -> Iterator[Any]:
            for rows in windows(elements, size, step, stride, bool(drop_remainder)):
                yield self._listed(rows)

        return self._then(
            InOrder(
                f"window({size}, {step}, {stride}{', drop_remainder=True' if drop_remainder else ''})",
                [node],
                datasets,
                spec=lambda spec: map_leaves(lambda leaf: TensorSpec((), object), spec),
                count=count,
            )
        )

    def _listed(self, rows: list[Any]) -> Any:
        """Return a structure with a dataset for each leaf of elements."""
        node = self._node

        def spec_at(place: int) -> Callable[[], Any]:
            return lambda: flatten(node.element_spec)[place]

        columns = zip(*(flatten_as(rows[0], row) for row in rows), strict=True)
        return rebuild(
            rows[0],
            [self._of(ListSource(list(column), spec_at(place))) for place, column in enumerate(columns)],
        )

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> DatasetType:
        """Keep the elements before the first for which a function returns False. It runs in Python.

        Raises:
            TypeError: `predicate` is not callable.
        """
        predicate = users_function("take_while", predicate)

        def kept(elements: Iterator[Any]) -> Iterator[Any]:
            for element in elements:
                if not spread(predicate, element):
                    return
                yield element

        return self._then(InOrder("take_while()", [self._node], kept, spec=lambda spec: spec))

    def scan(
        self, initial_state: Any, scan_func: Callable[[Any, Any], tuple[Any, Any]], name: str | None = None
    ) -> DatasetType:
        """Map each element with a state that one hands to the next. The function runs in Python.

        Args:
            initial_state: A structure of values: the state of the first element.
            scan_func: Takes the state and an element, returns the next state and an element.
            name: Ignored.

        Raises:
            TypeError: `scan_func` is not callable.
        """
        scan_func = users_function("scan", scan_func)

        def outputs(elements: Iterator[Any]) -> Iterator[Any]:
            state = as_element(initial_state)
            for element in elements:
                state, output = map(as_element, scan_func(state, element))
                yield output

        return self._then(InOrder("scan()", [self._node], outputs, count=lambda count: count))

    def unique(self, name: str | None = None) -> DatasetType:
        """Drop elements that are equal to one before. The leaves that were seen are kept in memory."""

        def key(element: Any) -> Any:
            leaves = [np.asarray(leaf) for leaf in flatten(element)]
            parts = [leaf.tolist() if leaf.dtype == object else leaf.tobytes() for leaf in leaves]
            return (form(element), *(each if isinstance(each, bytes) else repr(each) for each in parts))

        return self._then(
            InOrder(
                "unique()",
                [self._node],
                lambda elements: unrepeated(elements, key),
                spec=lambda spec: spec,
            )
        )

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Group elements by a key, and concatenate the datasets that a function makes of the groups.

        Args:
            key_func: Takes an element, returns an integer.
            reduce_func: Takes a key and a dataset of elements that have it, returns a dataset.
            window_size: The number of elements of a group. At the end groups may have fewer.
            window_size_func: Takes a key, returns that number, in place of `window_size`.
            name: Ignored.

        Raises:
            ValueError: Neither or both of `window_size` and `window_size_func` are given.
            TypeError: A function is not callable.

        Source: ``group_by_window`` (tensorflow/python/data/ops/dataset_ops.py).
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("group_by_window needs window_size or window_size_func, one of them.")
        key_func = users_function("group_by_window", key_func)
        fixed = None if window_size is None else integer("window_size", window_size, 1)
        node = self._node

        def size_of(key: int) -> int:
            if fixed is not None:
                return fixed
            return integer("window_size", _whole(window_size_func, np.int64(key)), 1)

        def grouped(elements: Iterator[Any]) -> Iterator[Any]:
            for key, rows in groups(elements, lambda element: _whole(spread, key_func, element), size_of):
                yield np.int64(key), self._of(ListSource(rows, lambda: node.element_spec))

        made = InOrder(f"group_by_window({fixed})", [node], grouped)
        return self._then(Interleave(made, node_maker("group_by_window", reduce_func), 1, 1 << 60))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> DatasetType:
        """Make padded batches of elements that are about equally long.

        Args:
            element_length_func: Takes an element, returns its length.
            bucket_boundaries: Lengths at which the next bucket begins, rising.
            bucket_batch_sizes: The size of batches of each bucket, one more than there are boundaries.
            padded_shapes: As for `padded_batch`.
            padding_values: As for `padded_batch`.
            pad_to_bucket_boundary: Whether to pad to the longest length of a bucket, one less than its
                boundary. Longer elements than the last boundary allows are an error then.
            no_padding: Whether the elements of a bucket have one shape, so that none is padded.
            drop_remainder: Whether to drop batches that are not full, at the end.
            name: Ignored.

        Raises:
            ValueError: There are not as many batch sizes as buckets.
            DatasetError: While iterating: an element is longer than `pad_to_bucket_boundary` allows.

        Source: ``bucket_by_sequence_length`` (tensorflow/python/data/ops/dataset_ops.py).
        """
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                "bucket_by_sequence_length needs a batch size for each bucket, one more than boundaries; "
                f"got {len(bucket_batch_sizes)} sizes and {len(bucket_boundaries)} boundaries."
            )
        boundaries = np.asarray(bucket_boundaries, np.int64)

        def bucket(*element: Any) -> int:
            length = element_length_func(*element)
            return int(np.searchsorted(boundaries, np.asarray(length).item(), side="right"))

        def batches(key: Any, window: Any) -> Any:
            size = bucket_batch_sizes[int(key)]
            if no_padding:
                return window.batch(size, drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                if key == len(boundaries):
                    raise DatasetError(
                        f"An element is as long as the last boundary, {boundaries[-1]}, or longer: with "
                        "pad_to_bucket_boundary all must be shorter. Add a boundary."
                    )
                shapes = _longest(window.element_spec if shapes is None else shapes, int(boundaries[key]) - 1)
            return window.padded_batch(size, shapes, padding_values, drop_remainder)

        return self.group_by_window(
            bucket, batches, window_size_func=lambda key: bucket_batch_sizes[int(key)]
        )

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Drop elements so that their classes are distributed as wished; yield pairs of class and element.

        Args:
            class_func: Takes an element, returns the number of its class.
            target_dist: The wished share of each class.
            initial_dist: The shares in this dataset; None estimates them by the elements so far.
            seed: As for `shuffle`.
            name: Ignored.

        Raises:
            TypeError: `class_func` is not callable.
        """
        class_func = users_function("rejection_resample", class_func)
        target = np.asarray(target_dist, float)
        initial = None if initial_dist is None else np.asarray(initial_dist, float)
        return self._then(
            InOrder(
                f"rejection_resample({_seed_text(seed)})",
                [self._node],
                lambda elements, random: resampled(
                    elements, lambda each: _whole(spread, class_func, each), target, initial, random
                ),
                spec=lambda spec: (TensorSpec((), np.int32), spec),
                order=RandomOrder(None if seed is None else integer("seed", seed), reshuffle=True),
            )
        )

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: DTypeLike = np.int64,
        name: str | None = None,
    ) -> DatasetType:
        """Make batches in which vectors of different lengths become ragged tensors; other leaves are stacked.

        ``row_splits_dtype`` is unused: splits are int64.

        Raises:
            ValueError: `batch_size` is not positive.
        """
        size = integer("batch_size", batch_size, 1)
        return self._then(Batch(self._node, size, bool(drop_remainder), RaggedRows()))

    # Of all elements

    def reduce(
        self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None
    ) -> Any:
        """Return the state that is left when a function has taken it and each element. It runs in Python.

        Args:
            initial_state: A structure of values.
            reduce_func: Takes the state and an element, returns the next state.
            name: Ignored.

        Raises:
            TypeError: `reduce_func` is not callable.
        """
        reduce_func = users_function("reduce", reduce_func)
        state = as_element(initial_state)
        for element in self:
            state = as_element(reduce_func(state, element))
        shown = frontend().elements
        return state if shown is None else shown([state])[0]

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the only element.

        Raises:
            DatasetError: There is none, or more than one.
        """
        with iter(self) as elements:
            found = [element for element, _ in zip(elements, range(2), strict=False)]
        if len(found) != 1:
            count = "more than one element" if found else "none"
            raise DatasetError(f"get_single_element needs a dataset of one element, this one has {count}.")
        return found[0]

    def assert_cardinality(self, expected: int) -> DatasetType:
        """Say how many elements there are, where muster cannot know it, as of a generator.

        Args:
            expected: The number, or ``INFINITE_CARDINALITY``.

        Raises:
            DatasetError: While iterating: there are more or fewer.
        """
        return self._then(Counted(self._node, integer("expected", expected, UNKNOWN)))

    # In memory and in files

    def cache(self, filename: str = "", name: str | None = None) -> DatasetType:
        """Keep computed elements for later iterations over this dataset.

        They keep the order of the first iteration: put `shuffle` after `cache`. Arrays that no `map` has
        changed are not copied.

        Args:
            filename: A file, also on an object store, which the first whole iteration writes, and later ones
                read, also in other runs: remove it when the elements change. Empty to keep them in memory.
            name: Ignored.
        """
        file = filename and local_path(filename, remote=True)
        return self._then(FileCache(self._node, file) if file else Cache(self._node))

    def save(
        self,
        path: str | os.PathLike[str],
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Write the elements into a folder, from which `load` reads them. The format is muster's own.

        Args:
            path: The folder, which is made if need be, also on an object store.
            compression: ``GZIP``, or None.
            shard_func: Ignored: there is one file.
            checkpoint_args: Ignored.

        Raises:
            DatasetError: A leaf is neither an array, text nor bytes; or the file cannot be written.
            StorageError: The object store cannot be written.
        """
        path = local_path(path, remote=True)
        os.makedirs(path, exist_ok=True)
        # What a front end shows of elements becomes arrays again.
        write_elements(os.path.join(path, ELEMENTS), map(as_element, self), compression)

    def snapshot(
        self,
        path: str | os.PathLike[str],
        compression: str | None = "AUTO",
        reader_func: Callable[..., Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Keep computed elements in a folder for later iterations and later runs, as `cache` does in a file.

        Args:
            path: The folder, which may be on an object store.
            compression: Ignored.
            reader_func: Ignored.
            shard_func: Ignored.
            name: Ignored.
        """
        path = local_path(path, remote=True)
        os.makedirs(path, exist_ok=True)
        return self.cache(os.path.join(path, ELEMENTS))


def node_maker(operation: str, map_func: Callable[..., Any]) -> Callable[..., Node]:
    """Return a function that returns the node of the dataset that a user's function makes of an element.

    Args:
        operation: The name of the operation, for messages.
        map_func: The user's function.

    Raises:
        TypeError: It is not callable; later, it returned something else.
    """
    function = users_function(operation, map_func)

    def make(*element: Any) -> Node:
        made = function(*element)
        if not isinstance(made, DatasetSteps):
            raise TypeError(f"The function of {operation} must return a Dataset, it returned {made!r}.")
        return made._node

    return make


def _whole(function: Any, *arguments: Any) -> int:
    """Return the integer that a user's function returns, as one of Python's."""
    return int(np.asarray(function(*arguments)))


def _longest(shapes: Any, size: int) -> Any:
    """Return padded shapes in which the sizes that vary are `size`."""
    if isinstance(shapes, TensorSpec):
        return None if shapes.shape is None else _longest(shapes.shape, size)
    if isinstance(shapes, dict):
        return {key: _longest(each, size) for key, each in shapes.items()}
    if isinstance(shapes, tuple | list) and all(each is None or isinstance(each, int) for each in shapes):
        return [size if each in (None, -1) else each for each in shapes]
    if isinstance(shapes, tuple):
        return tuple(_longest(each, size) for each in shapes)
    return shapes


def _seed_text(seed: int | None) -> str:
    return "" if seed is None else f"seed={seed}"
