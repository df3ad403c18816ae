"""Describe the rows of a table: their shape, dtype and optimizer slots."""

import math
from typing import Any

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster.ps.tables._initial_rows import Constant, InitialRows, Uniform


class SlotSpec(msgspec.Struct, frozen=True):
    """A slot of an optimizer for each row of a table.

    Args:
        name: Its name.
        shape: Its shape for one row: that of a row of the table, or ``()`` for one number.
        dtype: The name of its dtype.
        initial: Its initial value.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    initial: float = 0.0


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Describe the rows of a table.

    Args:
        name: Its name, for messages.
        shape: The shape of a row.
        dtype: The name of its dtype.
        initial: Its initial rows.
        slots: What an optimizer keeps for each row.

    Raises:
        ValueError: A row has no size, or a dtype is not of floating-point numbers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    initial: InitialRows = Uniform()
    slots: tuple[SlotSpec, ...] = ()

    def __post_init__(self) -> None:
        described = [("rows", self.shape, self.dtype)]
        described += [(f"slots {slot.name!r}", slot.shape, slot.dtype) for slot in self.slots]
        for what, shape, dtype in described:
            if any(size < 1 for size in shape):
                raise ValueError(
                    f"The {what} of table {self.name!r} have shape {shape}. Sizes must be positive."
                )
            if not _is_floating(dtype):
                raise ValueError(
                    f"The {what} of table {self.name!r} have dtype {dtype!r}. Only floating-point numbers "
                    "can be trained."
                )

    @property
    def columns(self) -> "tuple[Column, ...]":
        """The columns of the table: the row itself, then the slots."""
        slots = (Column(each.shape, dtype_named(each.dtype)) for each in self.slots)
        return (Column(self.shape, dtype_named(self.dtype)), *slots)

    @property
    def initials(self) -> tuple[InitialRows, ...]:
        """The initial values of each column."""
        return (self.initial, *(Constant(each.initial) for each in self.slots))

    @property
    def row_nbytes(self) -> int:
        """The size of a row and its slots, in bytes."""
        return sum(column.nbytes for column in self.columns)


class Column(msgspec.Struct, frozen=True):
    """The shape and dtype of what each row has."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The size for one row, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def _is_floating(name: str) -> bool:
    try:
        dtype = dtype_named(name)
    except (AttributeError, TypeError, ValueError):
        return False
    # Those of ml_dtypes have the kind of raw memory, and a name of their own.
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)
