"""Padding for `padded_batch`, and rows of different lengths for `ragged_batch`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor, stack_sparse
from muster.data.pipeline._spec import (
    RaggedTensorSpec,
    Shape,
    TensorSpec,
    check_alike,
    object_array,
    short_dtype,
    stack,
)
from muster.data.pipeline._structure import flatten, flatten_as, rebuild


class Padding:
    """Shapes to pad to and values to pad with."""

    operation = "padded_batch"

    def __init__(self, shapes: Any, values: Any):
        """Set what to pad to, and with.

        Args:
            shapes: Structure of shapes like the elements; a size of None or -1 is the longest in the batch.
                None stands for that in all shapes.
            values: Structure of values like the elements, or one value for all, or None for 0, False and the
                empty text.
        """
        self._shapes = shapes
        self._values = values

    def stack(self, elements: Sequence[Any]) -> Any:
        """Pad elements and stack them.

        Raises:
            DatasetError: They differ in type or rank, or one is larger than its padded shape.
        """
        first = elements[0]
        columns = list(zip(*(flatten_as(first, element) for element in elements), strict=True))
        patterns = self._leaf_shapes(first, len(columns))
        values = self._leaf_values(first, len(columns))
        return rebuild(first, [_pad(*parts) for parts in zip(columns, patterns, values, strict=True)])

    def element_spec(self, spec: Any) -> Any:
        """Return the spec of a padded element."""
        leaves = flatten(spec)
        return rebuild(
            spec,
            [
                TensorSpec([None] * len(leaf.shape) if leaf.shape is not None else None, leaf.dtype)
                if pattern is None
                else TensorSpec(pattern, leaf.dtype)
                for leaf, pattern in zip(leaves, self._leaf_shapes(spec, len(leaves)), strict=True)
            ],
        )

    def _leaf_shapes(self, template: Any, count: int) -> list[Shape | None]:
        if self._shapes is None:
            return [None] * count
        return [_shape(shape) for shape in flatten_as(template, self._shapes)]

    def _leaf_values(self, template: Any, count: int) -> list[Any]:
        if isinstance(self._values, tuple | dict):
            return flatten_as(template, self._values)
        return [self._values] * count


class RaggedRows:
    """Stacks elements for `ragged_batch`: vectors of different lengths become a ragged tensor.

    Args:
        chosen: For each leaf whether it becomes one; None for all arrays.
    """

    operation = "ragged_batch"

    def __init__(self, chosen: Sequence[bool] | None = None) -> None:
        self._chosen = chosen

    def stack(self, elements: Sequence[Any]) -> Any:
        """Stack elements.

        Raises:
            DatasetError: They differ in type, or in more than the length of their first axis.
        """
        first = elements[0]
        columns = list(zip(*(flatten_as(first, element) for element in elements), strict=True))
        chosen = [True] * len(columns) if self._chosen is None else self._chosen
        stacks = [_ragged if each else stack for each in chosen]
        return rebuild(first, [join(column) for join, column in zip(stacks, columns, strict=True)])

    def element_spec(self, spec: Any) -> Any:
        """Return the spec of one of the stacked elements."""
        leaves = flatten(spec)
        chosen = [True] * len(leaves) if self._chosen is None else self._chosen
        return rebuild(
            spec,
            [
                RaggedTensorSpec(leaf.shape, leaf.dtype, 0)
                if each and type(leaf) is TensorSpec and leaf.shape and leaf.shape[0] is None
                else leaf
                for each, leaf in zip(chosen, leaves, strict=True)
            ],
        )


def _ragged(leaves: Sequence[Any]) -> Any:
    if not isinstance(leaves[0], np.ndarray):
        return stack(leaves)
    check_alike(leaves, ranks_only=True)
    rows = [len(leaf) for leaf in leaves]
    if len({leaf.shape[1:] for leaf in leaves}) > 1:
        raise DatasetError(
            "ragged_batch joins elements that differ in their first axis alone, got shapes "
            f"{[leaf.shape for leaf in leaves]}."
        )
    return RaggedTensor.from_row_lengths(np.concatenate(leaves), rows)


def _shape(sizes: Any) -> Shape | None:
    if isinstance(sizes, int | np.integer):
        sizes = (sizes,)
    try:
        return None if sizes is None else tuple(None if size in (None, -1) else int(size) for size in sizes)
    except TypeError as exc:
        raise DatasetError(
            f"padded_shapes has the structure of the elements, with a shape at each leaf; got {sizes!r}."
        ) from exc


def _pad(leaves: Sequence[Any], pattern: Shape | None, value: Any) -> Any:
    if isinstance(leaves[0], SparseTensor):
        return stack_sparse(leaves)  # what has room for any number of values needs no padding
    check_alike(leaves, ranks_only=True)
    if not isinstance(leaves[0], np.ndarray | np.generic | str):
        return object_array(leaves)
    arrays = [np.asarray(leaf) for leaf in leaves]
    longest = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    if pattern is not None and len(pattern) != len(longest):
        raise DatasetError(f"padded_shapes says {pattern} for elements of shape {arrays[0].shape}.")
    shape = [
        size if wanted is None else wanted
        for size, wanted in zip(longest, pattern or [None] * len(longest), strict=True)
    ]
    for array in arrays:
        if any(size > limit for size, limit in zip(array.shape, shape, strict=True)):
            raise DatasetError(
                f"cannot pad an element of shape {array.shape} to the smaller shape {tuple(shape)} "
                "of padded_shapes."
            )
    dtype = np.result_type(*arrays)
    if value is None:
        value = "" if dtype.kind == "U" else b"" if dtype.kind == "S" else 0
    filling = _filling(value, dtype)
    padded = np.full((len(arrays), *shape), filling, dtype=np.result_type(dtype, filling))
    for i, array in enumerate(arrays):
        corner: tuple[int | slice, ...] = (i, *[slice(size) for size in array.shape])
        padded[corner] = array
    return padded


def _filling(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert a padding value to the type of its component; text keeps its width.

    Raises:
        DatasetError: It has another type.
    """
    unconverted = np.asarray(value)
    if unconverted.ndim == 0 and dtype.kind in "US" and unconverted.dtype.kind == dtype.kind:
        return unconverted
    try:
        filling = unconverted.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        filling = None
    if (
        filling is None
        or unconverted.ndim
        or dtype.kind in "US"
        or (dtype.kind in "biu" and filling != unconverted)
    ):
        raise DatasetError(f"padding_values has {value!r} for a component of {short_dtype(dtype)}.")
    return filling
