"""``tf.io.SparseFeature``: sparse tensors from features of Examples that hold their values and indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import named_dtype


@dataclass(frozen=True)
class SparseFeature:
    """Values at places of a sparse tensor, which are two features or more.

    Args:
        index_key: The name of the feature with the places of the values, of type int64; or a list of names,
            one for each axis.
        value_key: The name of the feature with the values.
        dtype: float32, int64, or ``tf.string`` for bytes.
        size: The size of the axis, or a list of sizes.
        already_sorted: Unused: places are sorted.

    Raises:
        ValueError: There are other numbers of sizes and of axes.

    Source: tensorflow/python/ops/parsing_config.py, ``SparseFeature``.
    """

    index_key: str | Sequence[str]
    value_key: str
    dtype: DTypeLike
    size: int | Sequence[int]
    already_sorted: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", named_dtype(self.dtype))
        if len(self.index_keys) != len(self.sizes):
            raise ValueError(
                f"A SparseFeature needs a size for each axis, got the index_key {self.index_key!r} and the "
                f"size {self.size!r}."
            )

    @property
    def index_keys(self) -> tuple[str, ...]:
        """The names of the features with the places."""
        return (self.index_key,) if isinstance(self.index_key, str) else tuple(self.index_key)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(map(int, self.size)) if isinstance(self.size, Sequence) else (int(self.size),)


def sparse_tensor(
    key: str,
    spec: SparseFeature,
    read: Callable[[str, DTypeLike], Sequence[np.ndarray[Any, Any]]],
    alone: bool,
) -> SparseTensor:
    """Return the sparse tensor of a batch of Examples, or of one.

    Args:
        key: The name of the feature.
        spec: Its description.
        read: Returns the values in each Example of the feature of a name, of a dtype.
        alone: Whether there is one Example, whose tensor has no axis for it.

    Raises:
        DatasetError: An Example has other numbers of places and of values, or a place is none of the axis.
    """
    values = read(spec.value_key, spec.dtype)
    places = [read(each, np.int64) for each in spec.index_keys]
    for name, axis, size in zip(spec.index_keys, places, spec.sizes, strict=True):
        for own, found in zip(values, axis, strict=True):
            if len(own) != len(found):
                raise DatasetError(
                    f"The feature {key!r} has {len(own)} values in {spec.value_key!r}, and {len(found)} "
                    f"places in {name!r}."
                )
            if len(found) and not 0 <= found.min() <= found.max() < size:
                raise DatasetError(f"The feature {name!r} has places outside of the {size} of {key!r}.")
    rows = np.repeat(np.arange(len(values)), [len(own) for own in values])
    axes = [np.concatenate(axis) if axis else rows for axis in places]
    indices = np.stack(axes if alone else [rows, *axes], axis=1)
    shape = spec.sizes if alone else (len(values), *spec.sizes)
    whole = np.concatenate(values) if values else np.zeros(0, spec.dtype)
    return SparseTensor(indices, whole, shape)
