"""Rows of variables on servers, packed into flat buffers; traceable."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster._arrays import LazyArray, dtype_named
from muster.ps import ArraySpec, FlatLayout, allocate

# Arrays of so many bytes are packed: to copy them takes less time than to pass them on their own.
_SMALL_BYTES = 1 << 16

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


class FlatTree:
    """Packs the small arrays of a nested structure into a flat buffer for each dtype, and takes them apart.

    Each array that a program takes or returns costs some microseconds on the host, as much as its work.

    Args:
        tree: The arrays, or what has their shapes and dtypes.
    """

    def __init__(self, tree: Any) -> None:
        leaves, self._structure = jax.tree.flatten(tree)
        specs = [ArraySpec(str(i), tuple(leaf.shape), str(leaf.dtype)) for i, leaf in enumerate(leaves)]
        self._packed = [spec.nbytes <= _SMALL_BYTES for spec in specs]
        self._large = [spec for spec, packed in zip(specs, self._packed, strict=True) if not packed]
        self._layout = FlatLayout(itertools.compress(specs, self._packed))

    def pack(self, tree: Any) -> tuple[Buffers, list[jax.Array]]:
        """Return the buffers, and the large arrays as they are; traceable."""
        flat: Buffers = {dtype: jnp.zeros(size, dtype) for dtype, size in self._layout.sizes.items()}
        starts, large = dict.fromkeys(flat, 0), []
        for leaf, packed in zip(jax.tree.leaves(tree), self._packed, strict=True):
            if packed:
                dtype = str(leaf.dtype)
                flat[dtype] = jax.lax.dynamic_update_slice(flat[dtype], jnp.ravel(leaf), (starts[dtype],))
                starts[dtype] += leaf.size
            else:
                large.append(leaf)
        return flat, large

    def unpack(self, flat: Mapping[str, Any], large: Sequence[Any]) -> Any:
        """Return the structure of what `pack` has returned: views of NumPy's buffers; traceable."""
        small, others = iter(self._layout.unpack(flat).values()), iter(large)
        return jax.tree.unflatten(
            self._structure, [next(small if packed else others) for packed in self._packed]
        )

    def on_host(self, packed: tuple[Buffers, Sequence[jax.Array]]) -> Any:
        """Return the structure of what a program has returned, in NumPy's arrays."""
        flat, large = packed
        buffers = {dtype: np.asarray(buffer) for dtype, buffer in flat.items()}
        return self.unpack(buffers, [np.asarray(each) for each in large])

    def allocate(self) -> tuple[Buffers, list[Any]]:
        """Return buffers and large arrays without content, as `pack` does, where XLA reads them in place."""
        large = [allocate(each.size, dtype_named(each.dtype)).reshape(each.shape) for each in self._large]
        return self._layout.allocate(), large


def in_memory(array: Any) -> Any:
    """Return an array in memory: made or read now if it was not there."""
    return np.asarray(array) if isinstance(array, LazyArray) else array
