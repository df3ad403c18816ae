"""The shapes of arrays, with the methods that TensorFlow's have."""

import math
from collections.abc import Iterable
from typing import Any

import jax


class Dimension(int):
    """A size of a shape: Python's int, with TensorFlow 1's ``value``.

    Args:
        value: The size.

    Raises:
        ValueError: It is None: an unknown size is None here.

    Source: tensorflow/python/framework/tensor_shape.py, ``Dimension``.
    """

    __slots__ = ()

    def __new__(cls, value: int | None) -> "Dimension":
        if value is None:
            raise ValueError("An unknown size is None here: write None, not tf.Dimension(None).")
        return super().__new__(cls, value)

    @property
    def value(self) -> int:
        """The size as a plain int."""
        return int(self)

    def is_compatible_with(self, other: int | None) -> bool:
        """Return whether another size is the same, or None, which is any."""
        return other is None or int(self) == int(other)


def dimension_value(dimension: int | None) -> int | None:
    """Return a size as a plain int, or None."""
    return None if dimension is None else int(dimension)


def _with_value(size: Any) -> Any:
    return Dimension(size) if type(size) is int else size


class ArrayShape(tuple[int | None, ...]):
    """A tuple of sizes, None where one is unknown, with TensorFlow's methods; equal to a plain tuple or list.

    Source: tensorflow/python/framework/tensor_shape.py, ``TensorShape``.
    """

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None]:
        """The sizes."""
        return [_with_value(size) for size in tuple.__iter__(self)]

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list."""
        return list(tuple.__iter__(self))

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

    def assert_is_compatible_with(self, other: Iterable[int | None] | None) -> None:
        """Raise an error unless one array could have both shapes.

        Raises:
            ValueError: It could not.
        """
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {tuple(self)} and {other} are incompatible.")

    def merge_with(self, other: Iterable[int | None] | None) -> "ArrayShape":
        """Return the shape with the sizes that either has.

        Raises:
            ValueError: No array could have both shapes.
        """
        self.assert_is_compatible_with(other)
        return (
            self
            if other is None
            else type(self)(b if a is None else a for a, b in zip(self, other, strict=True))
        )

    def most_specific_compatible_shape(self, other: Iterable[int | None]) -> "ArrayShape":
        """Return the shape whose sizes are those that both have, of two shapes of one rank."""
        return type(self)(a if a == b else None for a, b in zip(self, other, strict=True))

    def with_rank(self, rank: int) -> "ArrayShape":
        """Return the shape, which must have so many axes."""
        return self._of_rank(len(self) == rank, f"rank {rank}")

    def with_rank_at_least(self, rank: int) -> "ArrayShape":
        """Return the shape, which must have so many axes or more."""
        return self._of_rank(len(self) >= rank, f"at least rank {rank}")

    def with_rank_at_most(self, rank: int) -> "ArrayShape":
        """Return the shape, which must have so many axes or fewer."""
        return self._of_rank(len(self) <= rank, f"at most rank {rank}")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError unless there are so many axes."""
        self.with_rank(rank)

    def assert_same_rank(self, other: Iterable[int | None]) -> None:
        """Raise ValueError unless another shape has as many axes."""
        self.with_rank(len(tuple(other)))

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError unless all sizes are known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {tuple(self)} is not fully defined.")

    def _of_rank(self, holds: bool, wanted: str) -> "ArrayShape":
        if not holds:
            raise ValueError(f"Shape {tuple(self)} must have {wanted}.")
        return self

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return tuple.__ne__(self, tuple(other) if isinstance(other, list) else other)

    __hash__ = tuple.__hash__

    def __add__(self, other: Any) -> Any:
        joined = tuple.__add__(self, other)
        return ArrayShape(joined) if type(joined) is tuple else joined

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return ArrayShape(found) if isinstance(key, slice) else _with_value(found)


def _sizes(shape: ArrayShape) -> tuple[Any, None]:
    return tuple(shape), None


def _shape_of(_: None, sizes: Any) -> ArrayShape:
    return ArrayShape(sizes)


# As of a plain tuple, JAX takes the sizes apart: some are its symbols.
jax.tree_util.register_pytree_node(ArrayShape, _sizes, _shape_of)
