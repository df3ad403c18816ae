"""Arrays one after the other in flat buffers, one buffer for each dtype."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster.ps._array_spec import ArraySpec

Array = np.ndarray[Any, np.dtype[Any]]
# Looks rows up: returns them as they are when it is called, and the caller's.
AskedRows = Callable[[], Array]
# Flat arrays by the name of their dtype, in the order of the names.
Flat = dict[str, Array]

# XLA reads arrays in place that begin at a multiple of this address, and copies others.
_ALIGNMENT = 64


class FlatLayout:
    """Says where each array lies: in the order of the list, each dtype by itself, without padding.

    Args:
        specs: The arrays.

    Attributes:
        sizes: The number of elements of each buffer, by the name of its dtype, in the order of the names.
        nbytes: The size of all buffers, in bytes.
    """

    def __init__(self, specs: Iterable[ArraySpec]) -> None:
        sizes: dict[str, int] = {}
        self._places: list[tuple[ArraySpec, int]] = []
        self._parts: list[tuple[str, str, slice, tuple[int, ...]]] = []
        self._dtypes: list[np.dtype[Any]] = []
        for spec in specs:
            start = sizes.get(spec.dtype, 0)
            sizes[spec.dtype] = stop = start + spec.size
            self._places.append((spec, start))
            self._parts.append((spec.name, spec.dtype, slice(start, stop), spec.shape))
            self._dtypes.append(dtype_named(spec.dtype))
        self.sizes = dict(sorted(sizes.items()))
        self.nbytes = sum(spec.nbytes for spec, _ in self._places)

    def allocate(self) -> Flat:
        """Return buffers without content."""
        return {name: allocate(size, dtype_named(name)) for name, size in self.sizes.items()}

    def pack(self, arrays: Mapping[str, Any], into: Flat | None = None) -> Flat:
        """Copy arrays into buffers.

        Args:
            arrays: The arrays by name, each of the shape and dtype of its spec.
            into: The buffers; None for new ones.

        Raises:
            ValueError: An array is missing, or of another shape or dtype.
        """
        flat = self.allocate() if into is None else into
        for (spec, start), dtype in zip(self._places, self._dtypes, strict=True):
            if spec.name not in arrays:
                raise ValueError(f"The array {spec} is missing among those to pack.")
            array = np.asarray(arrays[spec.name])
            if array.shape != spec.shape or array.dtype != dtype:
                given = f"{array.dtype.name}{list(array.shape)}"
                raise ValueError(f"The array {spec} is to be packed, and {given} is given for it.")
            flat[spec.dtype][start : start + spec.size] = array.reshape(-1)
        return flat

    def unpack(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays by name: views of NumPy's buffers; of JAX's, traceable, slices."""
        return {name: flat[dtype][part].reshape(shape) for name, dtype, part, shape in self._parts}


def sizes_of(arrays: Iterable[Array]) -> tuple[tuple[str, int], ...]:
    """Return the name of the dtype and the number of elements of flat arrays."""
    return tuple([(_name(array.dtype), array.size) for array in arrays])


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # which takes NumPy 20 µs, in each message


def memory(array: Array) -> memoryview:
    """Return the bytes of a flat array, to send or to receive into."""
    return array.view(np.uint8).data  # the dtypes of ml_dtypes have no memoryview of their own


def allocate(size: int, dtype: np.dtype[Any]) -> Array:
    """Return a flat array without content, where XLA can read it in place."""
    raw = np.empty(size * dtype.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    return raw[start : start + size * dtype.itemsize].view(dtype)
