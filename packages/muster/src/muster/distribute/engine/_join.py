"""Join batches of workers and replicas into one; rows may differ in length."""

import functools
import logging
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from muster._arrays import AnyArray
from muster._errors import DatasetError
from muster.program import SparseRows

_log = logging.getLogger(__name__)

RowSizes = list[tuple[int, ...]]
"""The shapes of rows of the parts of a batch; of a sparse matrix, how many values a row has, and columns."""


def joined(batches: Sequence[Any]) -> Any:
    """Concatenate batches: nested structures of arrays, and of sparse matrices.

    Rows that are shorter than others are filled up with zeros, as `Dataset.padded_batch` does. An array
    without axes is that of the first batch.

    Raises:
        DatasetError: Rows differ in their number of axes.
    """
    if len(batches) == 1:
        return batches[0]
    sizes = common_sizes([row_sizes(batch) for batch in batches])
    return jax.tree.map(_concatenated, *(filled_up(batch, sizes) for batch in batches))


def row_sizes(batch: Any) -> RowSizes:
    """Return the sizes of a batch but for its number of rows."""
    return [
        each.row_size if isinstance(each, SparseRows) else np.shape(each)[1:]
        for each in jax.tree.leaves(batch, is_leaf=_is_sparse)
    ]


def common_sizes(all_sizes: Sequence[RowSizes]) -> RowSizes:
    """Return the largest sizes of batches.

    Raises:
        DatasetError: Rows differ in their number of axes.
    """
    common: RowSizes = []
    for sizes in zip(*all_sizes, strict=True):
        if len({len(size) for size in sizes}) > 1:
            raise DatasetError(
                "Batches that take a step together differ in the shapes of their rows: "
                f"{' and '.join(str(list(size)) for size in dict.fromkeys(sizes))}."
            )
        common.append(tuple(map(max, zip(*sizes, strict=True))))
    return common


def filled_up(batch: Any, sizes: RowSizes) -> Any:
    """Return a batch whose rows are of these sizes, filled up with zeros."""
    parts, structure = jax.tree.flatten(batch, is_leaf=_is_sparse)
    return jax.tree.unflatten(structure, list(map(_filled_up, parts, sizes)))


def _filled_up(part: Any, size: tuple[int, ...]) -> Any:
    if isinstance(part, SparseRows):
        return part.widened(*size)
    array = np.asarray(part)
    missing = [(0, wanted - here) for wanted, here in zip(size, array.shape[1:], strict=True)]
    if not any(after for _, after in missing):
        return array
    _warn_once()
    return np.pad(array, [(0, 0), *missing])


def _concatenated(*parts: AnyArray) -> AnyArray:
    return np.concatenate([np.asarray(part) for part in parts]) if np.ndim(parts[0]) else parts[0]


def _is_sparse(value: Any) -> bool:
    return isinstance(value, SparseRows)


@functools.cache
def _warn_once() -> None:
    _log.warning(
        "Batches that take a step together differ in the lengths of their rows: the shorter ones are filled "
        "up with zeros, as padded_batch does. Code that does not mask what is padded computes with that."
    )
