"""Self-describing arrays: a header in bytes, then the elements."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster._text import printable
from muster.net import ProtocolError, decode_message
from muster.ps._array_spec import ArraySpec, check_specs, is_of_numbers
from muster.ps._flat_layout import Array, FlatLayout, allocate, sizes_of
from muster.ps._memory import memory_bytes
from muster.ps._replies import RefusedError

_T = TypeVar("_T")

_IDS = "ids"
_SMALL_BYTES = 1 << 16


class BundleError(ValueError):
    """Buffers are not what they are to be; the text is a clause."""


def packed(described: Any) -> Array:
    """Return a description in a buffer of bytes."""
    return np.frombuffer(msgspec.msgpack.encode(described), np.uint8)


def unpacked(buffers: Sequence[Array], kind: type[_T]) -> _T:
    """Return the description in the first of some buffers.

    Raises:
        BundleError: It is none of that kind.
    """
    if not buffers or buffers[0].dtype != np.uint8:
        raise BundleError("it does not begin with a description")
    try:
        return decode_message(buffers[0].tobytes(), kind)
    except ProtocolError as exc:
        raise BundleError(f"its description cannot be read: {exc}") from exc


def only(buffers: Sequence[Array], count: int) -> Sequence[Array]:
    """Return buffers, of which there must be a number.

    Raises:
        BundleError: There are others.
    """
    if len(buffers) != count:
        raise BundleError(f"it has {len(buffers)} buffers where there must be {count}")
    return buffers


def bundle(arrays: Sequence[tuple[ArraySpec, Any]]) -> list[Array]:
    """Return arrays in buffers, after their description.

    Raises:
        ValueError: An array is of another shape or dtype than its description.
    """
    specs = [spec for spec, _ in arrays]
    flat = FlatLayout(specs).pack({spec.name: array for spec, array in arrays})
    return [packed(specs), *flat.values()]


def described(name: str, array: Array) -> ArraySpec:
    """Return what describes an array."""
    return ArraySpec(name, array.shape, array.dtype.name)


def unbundled(buffers: Sequence[Array]) -> list[tuple[ArraySpec, Array]]:
    """Return the arrays in buffers: views of these.

    Raises:
        BundleError: They are not what their description says.
    """
    specs = unpacked(buffers, tuple[ArraySpec, ...])
    try:
        check_specs("described", specs)
    except ValueError as exc:
        raise BundleError(str(exc)) from exc
    layout = FlatLayout(specs)
    if list(sizes_of(buffers[1:])) != list(layout.sizes.items()):
        raise BundleError("it has other elements than it describes")
    arrays = layout.unpack(dict(zip(layout.sizes, buffers[1:], strict=True)))
    return [(spec, arrays[spec.name]) for spec in specs]


def bundle_columns(ids: Array, columns: Sequence[Array]) -> list[Array]:
    """Return ids, and what is kept for them, in buffers, after their description."""
    named = {_IDS: ids, **{str(number): each for number, each in enumerate(columns)}}
    return bundle([(described(name, each), each) for name, each in named.items()])


def unbundled_columns(buffers: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return ids, and what is kept for them: views of buffers.

    Raises:
        BundleError: They are something else.
    """
    arrays = unbundled(buffers)
    if not arrays or arrays[0][0].name != _IDS or arrays[0][1].ndim != 1:
        raise BundleError("it does not begin with the ids of its rows")
    return arrays[0][1], [array for _, array in arrays[1:]]


def check_room(sizes: Sequence[tuple[str, int]]) -> None:
    """Raise RefusedError if no buffers of some sizes can be received here.

    Args:
        sizes: The name of the dtype and the number of elements of each.
    """
    for name, size in sizes:
        if size < 0 or not is_of_numbers(name):
            raise RefusedError(f"its buffer of {size} elements of {printable(name)} is none")
    needed = sum(size * dtype_named(name).itemsize for name, size in sizes)
    if needed > (limit := memory_bytes()):
        raise RefusedError(
            f"its arrays take {needed / 1e9:.1f} GB, and this server has {limit / 1e9:.1f} GB of memory. "
            "Give the job more parameter servers, and divide large variables among them by a partitioner"
        )


def new_places(sizes: Sequence[tuple[str, int]]) -> Sequence[Array]:
    """Return new memory for buffers of some sizes; raises ProtocolError if these are none."""
    if any(size < 0 or not is_of_numbers(name) for name, size in sizes):
        raise ProtocolError("its arrays are of no numbers")
    return [_room(size, dtype_named(name)) for name, size in sizes]


def _room(size: int, dtype: np.dtype[Any]) -> Array:
    # Small arrays are copied all the same.
    return np.empty(size, dtype) if size * dtype.itemsize < _SMALL_BYTES else allocate(size, dtype)
