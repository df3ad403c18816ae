"""``DynamicRaggedShape``: what ``tf.shape`` returns of a ragged tensor."""

from collections.abc import Sequence
from typing import Any


class DynamicRaggedShape:
    """The shape of a ragged tensor: sizes, and for ragged axes the lengths of all rows.

    Args:
        sizes: The sizes of axes, with a tuple of lengths for a ragged one.

    Source: tensorflow/python/ops/ragged/dynamic_ragged_shape.py, ``DynamicRaggedShape``.
    """

    def __init__(self, sizes: Sequence[Any]) -> None:
        self._sizes = list(sizes)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._sizes)

    @property
    def num_row_partitions(self) -> int:
        """The number of axes up to the last ragged one, but for the first."""
        return max((at for at, size in enumerate(self._sizes) if isinstance(size, tuple)), default=0)

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """Return the sizes, with a tuple of lengths for a ragged axis, or None."""
        return [size if ragged_lengths or not isinstance(size, tuple) else None for size in self._sizes]

    def __getitem__(self, axis: Any) -> Any:
        """Return a size, or some of them as a shape."""
        found = self._sizes[axis]
        if isinstance(axis, slice):
            return DynamicRaggedShape(found)
        if isinstance(found, tuple):
            raise ValueError(f"Index {axis} is not uniform: its rows have the lengths {found}.")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamicRaggedShape) and self._sizes == other._sizes

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lengths = ", ".join(map(str, self._sizes))
        return f"<DynamicRaggedShape lengths=[{lengths}] num_row_partitions={self.num_row_partitions}>"
