"""Stand-ins for values that are computed later or elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from muster.data.pipeline._spec import TensorSpec


class StandInSource(ABC):
    """Computes with the values that its `StandIn`s stand for."""

    @abstractmethod
    def compute(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what stands for the results of a function.

        Args:
            function: Takes and returns arrays, as a function for ``Dataset.map`` does.
            args: Its arguments, which have values of this source in lists, tuples and dicts.
            kwargs: Its named arguments.
        """


class StandIn(TensorSpec):
    """A value that stands for another one, of which the shape and dtype are known.

    Args:
        spec: Its shape and dtype.
        source: What computes with the value that it stands for.
        place: Which of the source's values it is.
    """

    __slots__ = ("place", "source")

    def __init__(self, spec: TensorSpec, source: Any, place: Any) -> None:
        super().__init__(spec.shape, spec.dtype, spec.name)
        self.source = source
        self.place = place

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def set_shape(self, shape: Any) -> None:
        """Do nothing: values have the shapes that they have."""

    def get_shape(self) -> Any:
        """Return the shape."""
        return self.shape

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self!r} stands for a value that is not known here.")

    def _operate(self, *args: Any, **kwargs: Any) -> Any:
        return self._refuse()  # that of the class

    __array__ = __getitem__ = __neg__ = __iter__ = __len__ = _operate
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _operate
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _operate
    __lt__ = __le__ = __gt__ = __ge__ = _operate
