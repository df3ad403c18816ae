"""``tf.TensorShape``: the sizes of an array, some of them unknown."""

from collections.abc import Iterable, Iterator
from typing import Any

from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape


class TensorShape(ArrayShape):
    """The sizes of an array's axes, None where one is unknown. It is a tuple, as all shapes are here.

    Args:
        dims: The sizes; of None, the shape of unknown rank, the result is None, as muster writes it.

    Raises:
        ValueError: A size is negative.

    Source: tensorflow/python/framework/tensor_shape.py, ``TensorShape``.
    """

    def __new__(cls, dims: Iterable[int | None] | int | None) -> "TensorShape":
        if dims is None:
            return None  # type: ignore[return-value]  # muster's shape of unknown rank
        sizes = (dims,) if isinstance(dims, int) else tuple(dims)
        if any(size is not None and size < 0 for size in sizes):
            raise ValueError(f"A shape has sizes >= 0 or None, got {sizes}.")
        return super().__new__(cls, sizes)

    def concatenate(self, other: Iterable[int | None] | int) -> "TensorShape":
        """Append the axes of another shape."""
        return TensorShape((*self, *TensorShape(other)))

    def __add__(self, other: Any) -> "TensorShape":
        return self.concatenate(other)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dims)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        return str(tuple(self))
