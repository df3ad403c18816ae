"""A type for NumPy arrays, on the host, and JAX arrays, on devices, alike; and their dtypes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from muster._errors import DatasetError


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the dtype of a name: one of NumPy's, or one that ml_dtypes adds (bfloat16, float8...)."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # only for what NumPy does not know

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def require_numbers(name: str, array: Any) -> None:
    """Raise DatasetError if an array holds text or objects."""
    dtype = np.asarray(array).dtype
    if dtype.kind not in "biufcV":
        raise DatasetError(
            f"{name} has dtype {dtype}, with which a step cannot compute. Turn it into numbers in the input "
            "pipeline, or leave it out."
        )


class AnyArray(Protocol):
    """A NumPy array or a ``jax.Array``.

    Code that takes only JAX's arrays says ``jax.Array``; code that takes only NumPy's says ``np.ndarray``.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def __array__(self) -> np.ndarray[Any, Any]: ...

    def __getitem__(self, index: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class LazyArray(ABC):
    """An array that is not in memory: it is made, or read, when it is needed.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of its elements in bytes, in memory."""
        return self.size * self.dtype.itemsize

    @abstractmethod
    def pieces(self) -> Iterator[np.ndarray[Any, Any]]:
        """Return all rows in order, some at a time, in new arrays."""

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return all of it in memory."""
