"""``tf.TensorShape``: the sizes of an array, some of them unknown."""

import math
from collections.abc import Iterable
from typing import Any


class TensorShape(tuple[int | None, ...]):
    """The sizes of an array's axes, None where one is unknown. It is a tuple, as all shapes are here.

    Args:
        dims: The sizes.

    Raises:
        ValueError: A size is negative, or ``dims`` is None: muster writes a shape of unknown rank as None.

    Source: tensorflow/python/framework/tensor_shape.py, ``TensorShape``.
    """

    def __new__(cls, dims: Iterable[int | None] | int | None) -> "TensorShape":
        if dims is None:
            raise ValueError("A shape of unknown rank is None here: write None, not tf.TensorShape(None).")
        sizes = (dims,) if isinstance(dims, int) else tuple(dims)
        if any(size is not None and size < 0 for size in sizes):
            raise ValueError(f"A shape has sizes >= 0 or None, got {sizes}.")
        return super().__new__(cls, sizes)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None]:
        """The sizes."""
        return list(self)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list."""
        return list(self)

    def is_fully_defined(self) -> bool:
        """Return whether all sizes are known."""
        return None not in self

    def num_elements(self) -> int | None:
        """Return the number of elements of such an array; None if a size is unknown."""
        return math.prod(size or 0 for size in self) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Iterable[int | None] | None) -> bool:
        """Return whether one array could have both shapes; None stands for a shape of unknown rank."""
        if other is None:
            return True
        sizes = tuple(other)
        return len(sizes) == len(self) and all(
            None in (one, two) or one == two for one, two in zip(self, sizes, strict=True)
        )

    def concatenate(self, other: Iterable[int | None] | int) -> "TensorShape":
        """Append the axes of another shape."""
        return TensorShape((*self, *TensorShape(other)))

    def __add__(self, other: Any) -> "TensorShape":
        return self.concatenate(other)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"
