"""Constructors of `Dataset`."""

import builtins
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster._frontend import frontend
from muster._paths import local_path
from muster._remote import fetch
from muster.data._arguments import integer
from muster.data.adapters._loaders import batches_node
from muster.data.adapters._streams import RayRows, StreamedSource, is_streamed
from muster.data.files._element_files import ELEMENTS, ElementFile
from muster.data.files._files import FileNames, Paths
from muster.data.files._npz import RandomAccess, RandomAccessSource
from muster.data.pipeline._combine import common_structure
from muster.data.pipeline._in_order import InOrder, chosen, sampled
from muster.data.pipeline._node import INFINITE, Node, RandomOrder
from muster.data.pipeline._shuffle import Shuffle
from muster.data.pipeline._sources import ArraySource, GeneratorSource, RangeSource
from muster.data.pipeline._spec import TensorSpec
from muster.data.pipeline._structure import flatten, flatten_as, rebuild

DatasetType = TypeVar("DatasetType")


def _source_of_front_end(tensors: Any, *, whole: bool) -> Node | None:
    """Return the source that a front end makes of values of its own; None for plain values."""
    source = frontend().source
    return None if source is None else source(tensors, whole)


class DatasetSources(ABC, Generic[DatasetType]):
    """Constructors of `Dataset` from data in memory, generators and other datasets; files have classes."""

    _node: Node

    @staticmethod
    @abstractmethod
    def _of(node: Node) -> DatasetType:
        """Make a dataset of a source."""

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of the rows of arrays, sparse tensors or ragged tensors.

        Args:
            tensors: Structure of arrays or lists of shape (n, ...), or of sparse or ragged tensors. Arrays
                are not copied: do not change them afterwards. Lists of Python numbers become int32 and
                float32.
            name: Ignored.

        Raises:
            ValueError: There is no array, or one without axes.
            DatasetError: The arrays differ in length.

        Example:
            ```python
            rows = Dataset.from_tensor_slices({"x": np.arange(4.0), "y": np.arange(4) % 2})
            assert [row["y"] for row in rows] == [0, 1, 0, 1]
            ```
        """
        made = _source_of_front_end(tensors, whole=False)
        return cls._of(ArraySource.slices(tensors) if made is None else made)

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of one element, which is `tensors`: a structure of arrays or other values.

        Raises:
            ValueError: `tensors` has no leaf.
        """
        made = _source_of_front_end(tensors, whole=True)
        return cls._of(ArraySource.single(tensors) if made is None else made)

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: tuple[Any, ...] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> DatasetType:
        """Make a dataset of the elements of a Python generator.

        The generator is called for each pass over the data. Resuming at a position generates the elements
        before it again and drops them, so the generator must yield the same elements in each pass.

        Args:
            generator: Returns an iterable.
            output_types: Structure of dtypes, an older alternative to `output_signature`.
            output_shapes: With `output_types`: structure of shapes, None for unknown ones.
            args: Arguments of `generator`, which gets them as NumPy values.
            output_signature: Structure of `TensorSpec` of an element.
            name: Ignored.

        Raises:
            TypeError: Neither or both of `output_types` and `output_signature` are set, or they have a leaf
                of another type.

        Example:
            ```python
            numbers = Dataset.from_generator(lambda: iter([1, 2, 3]), output_types=np.int32, output_shapes=[])
            assert list(numbers) == [1, 2, 3]
            ```
        """
        if (output_types is None) == (output_signature is None):
            raise TypeError(
                "from_generator needs output_signature (a structure of TensorSpec) or output_types, one of "
                f"them, got output_signature={output_signature!r} and output_types={output_types!r}."
            )
        if output_signature is None:
            types = flatten(output_types)
            shapes = [None] * len(types) if output_shapes is None else flatten_as(output_types, output_shapes)
            specs = [TensorSpec(shape, dtype) for shape, dtype in builtins.zip(shapes, types, strict=True)]
            output_signature = rebuild(output_types, specs)
        return cls._of(GeneratorSource(generator, tuple(args or ()), output_signature))

    @classmethod
    def from_loader(cls, loader: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of the batches that a loader makes: its elements are batches already.

        Batches are structures of arrays, tensors or tables, as `as_arrays` takes them; one that is a list, as
        those of PyTorch's ``DataLoader``, becomes a tuple. A list of batches and Keras' ``PyDataset`` are
        read by number. All else is read in its order: to resume at a position, the batches before it are read
        again.

        Args:
            loader: An iterable of batches, such as a ``DataLoader``; or a function that returns one, which is
                called for each pass. An iterator, such as a generator, can be read once.
            name: Ignored.

        Raises:
            TypeError: `loader` is neither.
            DatasetError: While iterating: an iterator is read a second time.

        Example:
            ```python
            batches = [(np.ones((4, 2)), np.zeros(4)), (np.ones((4, 2)), np.ones(4))]  # or a DataLoader
            assert sum(len(labels) for _, labels in Dataset.from_loader(batches)) == 8
            ```
        """
        return cls._of(batches_node(loader))

    @classmethod
    def range(cls, *args: int, output_type: DTypeLike = np.int64, name: str | None = None) -> DatasetType:
        """Make a dataset of the numbers of ``range(stop)``, ``(start, stop)`` or ``(start, stop, step)``.

        Raises:
            TypeError: The arguments are not one to three integers.
            ValueError: The step is 0.

        Example:
            ```python
            assert list(Dataset.range(1, 7, 2)) == [1, 3, 5]
            ```
        """
        return cls._of(RangeSource(builtins.range(*args), np.dtype(output_type)))

    @classmethod
    def list_files(
        cls,
        file_pattern: Paths,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Make a dataset of the paths of files.

        Args:
            file_pattern: A glob pattern such as ``data/*.csv``, or a list of them. Files that appear after
                this call are not found.
            shuffle: Whether to shuffle the paths anew in each iteration, as by default; otherwise they are
                sorted.
            seed: Seed of the shuffle.
            name: Ignored.

        Raises:
            DatasetError: No file matches.

        Example:
            ```python
            for name in ("b.csv", "a.csv"):
                pathlib.Path(name).write_text("1,2")
            files = Dataset.list_files("*.csv", shuffle=False)
            assert list(files) == ["a.csv", "b.csv"]
            ```
        """
        names = FileNames.matching(file_pattern)
        if shuffle is not None and not shuffle:
            return cls._of(names)
        seed = None if seed is None else integer("seed", seed)
        return cls._of(Shuffle(names, names.cardinality, seed, reshuffle=True))

    @classmethod
    def from_source(cls, source: RandomAccess | Iterable[Any], name: str | None = None) -> DatasetType:
        """Make a dataset of a random-access object, such as a Grain data source or a PyTorch dataset.

        Elements are read on demand: `shuffle` and resuming at a position read none.

        Args:
            source: An object with ``len(source)`` and ``source[i]``; ``source.__getitems__([i, ...])`` is
                used if it exists. Or an ``IterableDataset`` of Hugging Face, which is read in its order: to
                resume at a position, the elements before it are read again.
            name: Ignored.

        Raises:
            TypeError: `source` has no length or no elements by number.

        Example:
            ```python
            squares = Dataset.from_source([number**2 for number in range(10)])
            assert sorted(squares.shuffle(10, seed=1)) == [number**2 for number in range(10)]
            ```
        """
        if is_streamed(source):
            return cls._of(StreamedSource(cast(Iterable[Any], source)))
        if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
            raise TypeError(
                f"from_source needs an object with len() and numbers in [], got {source!r}. For an "
                "iterable use from_generator."
            )
        return cls._of(RandomAccessSource(cast(RandomAccess, source)))

    @classmethod
    def from_ray(cls, dataset: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of the rows of Ray Data: dicts of arrays by the names of columns.

        Rows are read in blocks, in their order, which is asked of Ray: so ``shard(workers, rank)`` on each
        worker gives every row to one of them, whatever their number. To resume at a position, the rows before
        it are read again. What ``ray.train.get_dataset_shard`` returns is a shard already, of equal size: Ray
        leaves out rows that are left over, and its order is not that of the dataset.

        Args:
            dataset: A ``ray.data.Dataset``, or a ``DataIterator``.
            name: Ignored.

        Raises:
            TypeError: It is neither.

        Example:
            ```py
            rows = muster.data.Dataset.from_ray(ray.data.read_parquet("s3://bucket/rows"))
            batches = rows.shard(2, rank).batch(32).map(lambda row: (row["x"], row["y"]))
            ```
        """
        return cls._of(StreamedSource(RayRows(dataset)))

    # Of several datasets

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Any],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Draw each element from one of several datasets.

        Args:
            datasets: The datasets.
            weights: How often to draw from each; None is equally often.
            seed: As for `shuffle`.
            stop_on_empty_dataset: Whether to end with the first dataset that ends, rather than with the last.
            rerandomize_each_iteration: Whether iterations differ in order; None is True.
            name: Ignored.

        Raises:
            ValueError: There is no dataset, or not a weight for each, or no weight above 0.
            TypeError: One is no dataset.
        """
        nodes = _nodes("sample_from_datasets", datasets)
        shares = [1.0] * len(nodes) if weights is None else np.asarray(weights, float).ravel().tolist()
        if len(shares) != len(nodes) or min(shares) < 0 or max(shares) <= 0:
            raise ValueError(
                f"sample_from_datasets needs a weight for each of {len(nodes)} datasets, none below 0 and "
                f"one above; got {weights!r}."
            )
        reshuffle = rerandomize_each_iteration is None or bool(rerandomize_each_iteration)
        return cls._of(
            InOrder(
                f"sample_from_datasets({shares}, {_seed_text(seed)})",
                nodes,
                lambda *sources: sampled(sources[:-1], shares, bool(stop_on_empty_dataset), sources[-1]),
                spec=lambda *specs: common_structure(specs),
                order=RandomOrder(None if seed is None else integer("seed", seed), reshuffle),
            )
        )

    @classmethod
    def choose_from_datasets(
        cls,
        datasets: Sequence[Any],
        choice_dataset: Any,
        stop_on_empty_dataset: bool = True,
        name: str | None = None,
    ) -> DatasetType:
        """Take each element from the dataset whose number another dataset has.

        Args:
            datasets: The datasets.
            choice_dataset: A dataset of numbers, from 0 to ``len(datasets) - 1``.
            stop_on_empty_dataset: Whether to end when a chosen dataset has ended, rather than pass on.
            name: Ignored.

        Raises:
            ValueError: There is no dataset.
            TypeError: One is no dataset.
        """
        nodes = _nodes("choose_from_datasets", [*datasets, choice_dataset])
        return cls._of(
            InOrder(
                "choose_from_datasets()",
                nodes,
                lambda *sources: chosen(sources[:-1], sources[-1], bool(stop_on_empty_dataset)),
                spec=lambda *specs: common_structure(specs[:-1]),
            )
        )

    @classmethod
    def random(
        cls,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> DatasetType:
        """Make an endless dataset of random numbers: int64 from 0 to 2**32 - 1.

        Args:
            seed: Any integer; None draws one.
            rerandomize_each_iteration: Whether iterations differ; None is False.
            name: Ignored.
        """

        def numbers(random: np.random.Generator) -> Iterator[Any]:
            while True:
                yield from random.integers(1 << 32, size=256, dtype=np.int64)

        return cls._of(
            InOrder(
                f"random({_seed_text(seed)})",
                [],
                numbers,
                spec=lambda: TensorSpec((), np.int64),
                count=lambda: INFINITE,
                order=RandomOrder(
                    None if seed is None else integer("seed", seed), bool(rerandomize_each_iteration)
                ),
            )
        )

    @classmethod
    def counter(
        cls, start: int = 0, step: int = 1, dtype: DTypeLike = np.int64, name: str | None = None
    ) -> DatasetType:
        """Make an endless dataset of the numbers `start`, ``start + step`` and so on."""
        start, step, kind = integer("start", start), integer("step", step), np.dtype(dtype)
        return cls._of(
            InOrder(
                f"counter({start}, {step}, {kind})",
                [],
                lambda: map(kind.type, itertools.count(start, step)),
                spec=lambda: TensorSpec((), kind),
                count=lambda: INFINITE,
            )
        )

    # In files

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[..., Any] | None = None,
        wait: bool = False,
    ) -> DatasetType:
        """Read the elements that `save` wrote into a folder.

        Args:
            path: The folder, which may be on an object store.
            element_spec: Ignored: the elements say what they are.
            compression: As for `save`.
            reader_func: Ignored.
            wait: Ignored.

        Raises:
            DatasetError: Nothing was saved there; while iterating, the file is damaged.
        """
        file = os.path.join(local_path(path, remote=True), ELEMENTS)
        fetch(file)
        if not os.path.exists(file):
            raise DatasetError(f"{os.fspath(path)} has no elements: Dataset.save writes them.")
        return cls._of(ElementFile(file, compression))


def _nodes(operation: str, datasets: Sequence[Any]) -> list[Node]:
    if not datasets:
        raise ValueError(f"{operation} needs at least one dataset.")
    for each in datasets:
        if not isinstance(each, DatasetSources):
            raise TypeError(f"{operation} needs a list of datasets, got {each!r} in it.")
    return [each._node for each in datasets]


def _seed_text(seed: int | None) -> str:
    return "" if seed is None else f"seed={seed}"
