"""Let a program's layers assign ``kernel``, as in ``class MaskedConv(Conv2D)`` with its own ``build``.

In Keras 2 ``kernel`` and ``embeddings`` are attributes, which such a ``build`` sets and reads, and which some
programs set to what another network computes. In Keras 3 they are properties that can only be read, and only
once the layer is built.
"""

from typing import Any

from muster import keras
from muster_tensorflow.patches import change

_CONVOLUTION = keras.layers.Conv2D.__mro__[1]  # what Conv1D and others derive from
_KERNELS = ((keras.layers.Dense, "kernel"), (keras.layers.EinsumDense, "kernel"), (_CONVOLUTION, "kernel"))


def _as_attribute(found: property, name: str) -> property:
    """Return a property that can be set, and read as soon as it has been."""

    def read(self: Any) -> Any:
        if not self.built and (value := getattr(self, name, None)) is not None:
            return value
        return found.__get__(self)

    def write(self: Any, value: Any) -> None:
        setattr(self, name, value)

    return property(read, write, doc=found.__doc__)


def patch() -> None:
    """Let the kernels of Keras' layers be set."""
    for kind, name in (*_KERNELS, (keras.layers.Embedding, "embeddings")):
        change(kind, name, _as_attribute(vars(kind)[name], f"_{name}"))
