"""``tf.types.experimental``: types for annotations, and the trace types of function arguments."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from muster_tensorflow.library.ops.arrays._tensor import Tensor

TensorLike = Tensor | bool | int | float | complex | str | bytes | Sequence[Any] | np.generic


class TraceType(ABC):
    """The kind of an argument of a ``tf.function``, which has a trace for each kind: `==` and `hash` tell.

    Source: tensorflow/python/types/trace.py, ``TraceType``.
    """

    @abstractmethod
    def is_subtype_of(self, other: "TraceType") -> bool:
        """Return whether a trace for another kind would do for this one; only equal kinds share traces."""

    @abstractmethod
    def most_specific_common_supertype(self, others: Sequence["TraceType"]) -> "TraceType | None":
        """Return the kind that has these and others in it; nothing asks for it."""

    @abstractmethod
    def __hash__(self) -> int: ...

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...


@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """An object that says its kind as an argument of a ``tf.function``.

    Source: tensorflow/python/types/trace.py, ``SupportsTracingProtocol``.
    """

    def __tf_tracing_type__(self, context: Any) -> TraceType:
        """Return its kind; the context is None."""
