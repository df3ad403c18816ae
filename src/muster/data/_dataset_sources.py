"""The sources of a dataset: what it is made of that is in memory, in files, or generated."""

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np

from muster.data._arguments import integer
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
        """Make a dataset of the rows of arrays.

        Args:
            tensors: Structure of arrays or lists of shape (n, ...). Arrays are not copied: do not
                change them afterwards. Lists of Python numbers become int32 and float32.
            name: Ignored.

        Raises:
            ValueError: There is no array, or one without axes.
            DatasetError: The arrays have different lengths.
        """
        return cls._of(ArraySource.slices(tensors))

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> DatasetType:
        """Make a dataset of one element.

        Raises:
            ValueError: `tensors` holds nothing.
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
        """Make a dataset of what a Python generator yields.

        It is called anew for every pass over the data. To go on from a saved position the elements
        before it are generated again and dropped: it must yield the same ones each time.

        Args:
            generator: Returns an iterable.
            output_types: Structure of dtypes, the older way to say what is yielded.
            output_shapes: With `output_types`: structure of shapes; None for unknown ones.
            args: Arguments of `generator`, passed as NumPy values.
            output_signature: Structure of `TensorSpec`.
            name: Ignored.

        Raises:
            TypeError: Neither or both of `output_types` and `output_signature` are given, or they are
                not what they should be.
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
    def range(cls, *args: int, output_type: Any = np.int64, name: str | None = None) -> DatasetType:
        """Make a dataset of numbers: ``range(stop)``, ``range(start, stop)`` or ``range(start, stop, step)``.

        Raises:
            TypeError: The arguments are not one to three integers.
            ValueError: The step is 0.
        """
        return cls._of(RangeSource(builtins.range(*args), np.dtype(output_type)))

    @classmethod
    def list_files(
        cls, file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> DatasetType:
        """Make a dataset of the paths of files.

        Args:
            file_pattern: A pattern such as ``data/*.csv``, or several. It is looked for now, once.
            shuffle: Whether each iteration has them in another order, as by default; else they come in the
                order of their names.
            seed: Of the order.
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
    def from_source(cls, source: RandomAccess[Any], name: str | None = None) -> DatasetType:
        """Make a dataset of what has elements by number, as data sources of Grain and datasets of PyTorch do.

        They are read when they are wanted: to shuffle or to go on from a position reads none.

        Args:
            source: Has ``len(source)`` and ``source[i]``, and may have ``source.__getitems__([i, ...])``.
            name: Ignored.

        Raises:
            TypeError: `source` is not of this kind.
        """
        if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
            raise TypeError(
                f"from_source needs an object with len() and numbers in [], got {source!r}. For an "
                "iterable use from_generator."
            )
        return cls._of(RandomAccessSource(source, type(source).__name__))
