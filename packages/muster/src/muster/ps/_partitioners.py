"""Partitioners: choose the number of shards of a variable."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._arrays import dtype_named

STRING_BYTES = 16


class Partitioner:
    """Says into how many shards a variable is split, from its shape and dtype: the base of the others.

    Parameter servers call it as ``partitioner(shape, dtype)``. Any function of that form will do, too.

    Source: tensorflow/python/distribute/sharded_variable.py, ``Partitioner``.
    """

    def __call__(self, shape: Sequence[int | None], dtype: Any, axis: int = 0) -> list[int]:
        """Return the number of shards along each axis of a variable: 1 but along the axis that is split.

        Args:
            shape: The variable's shape; of a scalar, (), nothing is split.
            dtype: Its dtype, or that one's name.
            axis: Which axis to split; parameter servers split the first.

        Raises:
            ValueError: There is no such axis, or the size of one that counts is not known.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __call__: say how many shards there are.")


class FixedShardsPartitioner(Partitioner):
    """Splits every variable into the same number of shards, or a shard a row if there are fewer rows.

    Args:
        num_shards: The number of shards.

    Raises:
        ValueError: The number is less than 1.

    Source: tensorflow/python/distribute/sharded_variable.py, ``FixedShardsPartitioner``, which accepts 0.
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = require_positive("num_shards", num_shards)

    def __call__(self, shape: Sequence[int | None], dtype: Any, axis: int = 0) -> list[int]:
        """Return the number of shards along each axis."""
        if not len(shape):
            return []
        return _along(shape, axis, min(self._num_shards, _size(shape, axis)))


class MinSizePartitioner(Partitioner):
    """Splits a variable into as many shards as it can have of at least some size.

    Args:
        min_shard_bytes: How large shards are at least, in bytes.
        max_shards: How many there are at most.
        bytes_per_string: What a text counts as, in bytes.

    Raises:
        ValueError: A number is less than 1.

    Source: tensorflow/python/distribute/sharded_variable.py, ``MinSizePartitioner``. The number of shards is
        rounded up, so that they may be somewhat smaller than ``min_shard_bytes``, like TensorFlow's.
    """

    def __init__(
        self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = STRING_BYTES
    ) -> None:
        self._min_shard_bytes = require_positive("min_shard_bytes", min_shard_bytes)
        self._max_shards = require_positive("max_shards", max_shards)
        self._bytes_per_string = require_positive("bytes_per_string", bytes_per_string)

    def __call__(self, shape: Sequence[int | None], dtype: Any, axis: int = 0) -> list[int]:
        """Return the number of shards along each axis."""
        if not len(shape):
            return []
        size = _size(shape, axis)
        total = _row_bytes(shape, axis, dtype, self._bytes_per_string) * size
        return _along(shape, axis, min(size, self._max_shards, -(-total // self._min_shard_bytes)))


class MaxSizePartitioner(Partitioner):
    """Splits a variable into as few shards as it can have of at most some size, but never a row.

    Args:
        max_shard_bytes: How large shards are at most, in bytes.
        max_shards: How many there are at most, which counts more than their size; None for any number.
        bytes_per_string: What a text counts as, in bytes.

    Raises:
        ValueError: A number is less than 1.

    Source: tensorflow/python/distribute/sharded_variable.py, ``MaxSizePartitioner``.
    """

    def __init__(
        self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = STRING_BYTES
    ) -> None:
        self._max_shard_bytes = require_positive("max_shard_bytes", max_shard_bytes)
        self._max_shards = None if max_shards is None else require_positive("max_shards", max_shards)
        self._bytes_per_string = require_positive("bytes_per_string", bytes_per_string)

    def __call__(self, shape: Sequence[int | None], dtype: Any, axis: int = 0) -> list[int]:
        """Return the number of shards along each axis."""
        if not len(shape):
            return []
        size = _size(shape, axis)
        row_bytes = _row_bytes(shape, axis, dtype, self._bytes_per_string)
        rows = max(1, self._max_shard_bytes // row_bytes) if row_bytes else size
        shards = -(-size // rows) if size else 1
        return _along(shape, axis, shards if self._max_shards is None else min(shards, self._max_shards))


def bytes_of_element(dtype: Any, bytes_per_string: int = STRING_BYTES) -> int:
    """Return the size of an element in bytes; a text counts as ``bytes_per_string``.

    Args:
        dtype: A dtype, or the name of one, such as ``"float32"`` or ``"string"``.
        bytes_per_string: What a text counts as.

    Raises:
        ValueError: There is no such dtype.
    """
    if isinstance(dtype, str) and dtype == "string":
        return bytes_per_string
    try:
        known = dtype_named(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except (AttributeError, TypeError) as exc:
        raise ValueError(f"There is no dtype {dtype!r}: give one of NumPy's, or such as 'bfloat16'.") from exc
    return bytes_per_string if known.kind in "USTO" else known.itemsize


def require_positive(name: str, value: Any) -> int:
    """Return an argument that is a whole number of at least 1.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, int | float | np.integer) and value >= 1 and value % 1 == 0:
        return int(value)
    raise ValueError(
        f"Argument `{name}` must be positive. Received: {value!r}. Give a whole number from 1 on."
    )


def _size(shape: Sequence[int | None], axis: int) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"Cannot partition variable along axis {axis} when shape is only {tuple(shape)}. Give one of its "
            "axes."
        )
    size = shape[axis]
    if size is None:
        raise ValueError(f"Axis {axis} of {tuple(shape)} has no size yet: only what is built can be split.")
    return size


def _row_bytes(shape: Sequence[int | None], axis: int, dtype: Any, bytes_per_string: int) -> int:
    """Return the size in bytes of what has one place along an axis."""
    elements = math.prod(_size(shape, other) for other in range(len(shape)) if other != axis % len(shape))
    return elements * bytes_of_element(dtype, bytes_per_string)


def _along(shape: Sequence[int | None], axis: int, shards: int) -> list[int]:
    """Return a number of shards for each axis: 1, but for one axis as many as given, at least 1."""
    counts = [1] * len(shape)
    counts[axis] = max(1, shards)
    return counts
