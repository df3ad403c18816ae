"""Rows of variables on servers, packed into flat buffers; traceable."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster._arrays import LazyArray
from muster.ps import ArraySpec, FlatLayout

Buffers = dict[str, Any]
"""Name of a dtype -> the elements of arrays of that dtype, one after the other."""


class RowRange(NamedTuple):
    """Rows of a variable, or all of it.

    Attributes:
        server: The number of the server that holds them.
        start: The first row.
        stop: The row after the last one; None for a variable that is not divided.
    """

    server: int
    start: int = 0
    stop: int | None = None

    def of(self, array: Any) -> Any:
        """Return these rows of an array; all of a single number."""
        return array if self.stop is None or math.prod(array.shape) == 1 else array[self.start : self.stop]

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of these rows of an array."""
        whole = self.stop is None or math.prod(shape) == 1
        return shape if whole else (self.stop - self.start, *shape[1:])  # type: ignore[operator]

    def span(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return the first row and the row after the last one, of rows of a shape; 0 and 1 of a number."""
        return (0, shape[0] if shape else 1) if self.stop is None else (self.start, self.stop)


Place = tuple[str | int, RowRange]
"""The path of a variable or the number of a pushed array, and rows of it."""


class FlatPiece(NamedTuple):
    """Rows of a variable on a server, or of an array that is pushed to it.

    Attributes:
        key: The path of the variable, or the number of the pushed array.
        rows: Which rows.
        shape: Their shape.
        dtype: The name of their dtype.
    """

    key: str | int
    rows: RowRange
    shape: tuple[int, ...]
    dtype: str

    @property
    def place(self) -> Place:
        """Its key and rows, by which arrays are packed and unpacked."""
        return self.key, self.rows

    @property
    def spec(self) -> ArraySpec:
        """The array, as plans name it: ``dense/kernel[0:3]``, or ``push 2``."""
        name = self.key if isinstance(self.key, str) else f"push {self.key}"
        start, stop = self.rows.start, self.rows.stop
        return ArraySpec(name if stop is None else f"{name}[{start}:{stop}]", self.shape, self.dtype)


class FlatArrays:
    """Packs arrays into flat buffers, as `FlatLayout` does, and takes them apart; traceable.

    Args:
        pieces: The arrays.

    Attributes:
        specs: The arrays, as plans name them.
    """

    def __init__(self, pieces: Iterable[FlatPiece]) -> None:
        self.pieces = tuple(pieces)
        self.specs = tuple(piece.spec for piece in self.pieces)
        self._layout = FlatLayout(self.specs)

    @property
    def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the buffers."""
        return {dtype: jax.ShapeDtypeStruct((size,), dtype) for dtype, size in self._layout.sizes.items()}

    def pack(self, arrays: Mapping[Place, Any]) -> Buffers:
        """Return the buffers of arrays."""
        parts: dict[str, list[jax.Array]] = {dtype: [] for dtype in self._layout.sizes}
        for piece in self.pieces:
            parts[piece.dtype].append(jnp.ravel(arrays[piece.place]))
        return {dtype: jnp.concatenate(each) for dtype, each in parts.items()}

    def pack_rows(self, arrays: Mapping[Any, Any]) -> Buffers:
        """Return the buffers of rows of arrays, which are given whole, by path or number."""
        given = {piece.key: in_memory(arrays[piece.key]) for piece in self.pieces}
        return self.pack({piece.place: piece.rows.of(given[piece.key]) for piece in self.pieces})

    def unpack(self, buffers: Mapping[str, Any]) -> dict[Place, Any]:
        """Return the arrays in buffers, NumPy's without a copy."""
        arrays = self._layout.unpack(buffers)
        return {piece.place: arrays[spec.name] for piece, spec in zip(self.pieces, self.specs, strict=True)}

    def buffers(self, kind: str) -> list[ArraySpec]:
        """Return the buffers, as functions of the plan name them."""
        return [ArraySpec(f"{kind} {dtype}", (size,), dtype) for dtype, size in self._layout.sizes.items()]


def in_memory(array: Any) -> Any:
    """Return an array in memory: made or read now if it was not there."""
    return np.asarray(array) if isinstance(array, LazyArray) else array
