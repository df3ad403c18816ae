"""The type of arrays that may be NumPy's, on the host, or JAX's, on devices."""

from typing import Any, Protocol

import numpy as np


class AnyArray(Protocol):
    """A NumPy array or a ``jax.Array``.

    Code that takes JAX's arrays alone says ``jax.Array``, code that takes NumPy's alone ``np.ndarray``.
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

    def __len__(self) -> int: ...
