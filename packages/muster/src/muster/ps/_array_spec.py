"""Name, shape and dtype of an array on a server."""

import functools
import math
from collections.abc import Iterable

import msgspec

from muster._arrays import dtype_named


class ArraySpec(msgspec.Struct, frozen=True):
    """One array of a plan.

    Args:
        name: Its name, for messages.
        shape: Its shape.
        dtype: The name of its dtype.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} ({self.dtype}{list(self.shape)})"

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.size * dtype_named(self.dtype).itemsize


def check_specs(kind: str, specs: Iterable[ArraySpec]) -> None:
    """Raise ValueError, with what is wrong, if arrays have no sizes, dtypes or names of their own."""
    names = set()
    for spec in specs:
        if spec.name in names:
            raise ValueError(f"its {kind} arrays have the name {spec.name} twice")
        names.add(spec.name)
        if any(each < 0 for each in spec.shape):
            raise ValueError(f"its {kind} array {spec} has a negative size")
        if not is_of_numbers(spec.dtype):
            raise ValueError(f"its {kind} array {spec} has a dtype that is not numeric")


@functools.lru_cache(maxsize=64)  # NumPy takes long for names, and each message has some
def is_of_numbers(name: str) -> bool:
    """Return whether a name is that of a dtype of numbers."""
    try:
        dtype = dtype_named(name)
    except (AttributeError, TypeError, ValueError, SyntaxError):
        return False
    # Those of ml_dtypes have the kind of raw memory, and a name of their own.
    return dtype.name == name and dtype.kind in "biufcV" and dtype.itemsize > 0
