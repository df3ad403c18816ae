"""Constructors of `Dataset`."""

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from muster.data._arguments import integer
from muster.data.adapters._loaders import batches_node
from muster.data.files._files import Paths
from muster.data.files._list_files import FileNames
from muster.data.files._random_access import RandomAccess, RandomAccessSource
from muster.data.pipeline._node import Node
from muster.data.pipeline._shuffle import Shuffle
from muster.data.pipeline._sources import ArraySource, GeneratorSource, RangeSource
from muster.data.pipeline._spec import TensorSpec
from muster.data.pipeline._structure import flatten, flatten_as, rebuild

DatasetType = TypeVar("DatasetType")


class DatasetSources(ABC, Generic[DatasetType]):
    """Constructors of `Dataset` from data in memory and generators; each file format has a class."""

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
        """
        return cls._of(ArraySource.slices(tensors))

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of one element, which is `tensors`: a structure of arrays or other values.

        Raises:
            ValueError: `tensors` has no leaf.
        """
        return cls._of(ArraySource.single(tensors))

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
        """
        return cls._of(batches_node(loader))

    @classmethod
    def range(cls, *args: int, output_type: DTypeLike = np.int64, name: str | None = None) -> DatasetType:
        """Make a dataset of the numbers of ``range(stop)``, ``(start, stop)`` or ``(start, stop, step)``.

        Raises:
            TypeError: The arguments are not one to three integers.
            ValueError: The step is 0.
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
        """
        names = FileNames.matching(file_pattern)
        if shuffle is not None and not shuffle:
            return cls._of(names)
        seed = None if seed is None else integer("seed", seed)
        return cls._of(Shuffle(names, names.cardinality, seed, reshuffle=True))

    @classmethod
    def from_source(cls, source: RandomAccess, name: str | None = None) -> DatasetType:
        """Make a dataset of a random-access object, such as a Grain data source or a PyTorch dataset.

        Elements are read on demand: `shuffle` and resuming at a position read none.

        Args:
            source: An object with ``len(source)`` and ``source[i]``; ``source.__getitems__([i, ...])`` is
                used if it exists.
            name: Ignored.

        Raises:
            TypeError: `source` has no length or no elements by number.
        """
        if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
            raise TypeError(
                f"from_source needs an object with len() and numbers in [], got {source!r}. For an "
                "iterable use from_generator."
            )
        return cls._of(RandomAccessSource(source))
