"""Placeholders for the inputs of an exported model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import DTypeLike

from muster.data.pipeline._map import spread
from muster.data.pipeline._spec import TensorSpec, named_dtype
from muster.data.pipeline._structure import replaced


class Parsed(NamedTuple):
    """Names the feature of serialized Examples that a placeholder stands for.

    Attributes:
        examples: The placeholder of the serialized Examples.
        key: The key of the feature in them.
        spec: Its description, as for `parse_example`.
    """

    examples: "Placeholder"
    key: str
    spec: Any


class Placeholder(TensorSpec):
    """A batch of values that an exported model will be given, or will read of Examples.

    It has a shape and a dtype, and no values. Each is one of its own.

    Args:
        dtype: Anything that ``np.dtype`` takes; str for text.
        shape: Sizes, of which the first counts examples; None for one that varies. None for an unknown rank,
            of which sparse features are.
        name: A name for people to read.
        parsed: The feature of serialized Examples that it stands for; None if requests give its values.

    Source: ``placeholder`` (tensorflow/python/ops/array_ops.py).
    """

    __slots__ = ("__weakref__", "_parsed")

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None] | int | None = None,
        name: str | None = None,
        *,
        parsed: Parsed | None = None,
    ) -> None:
        kind = named_dtype(dtype)
        super().__init__(
            (shape,) if isinstance(shape, int) else shape, str if kind.kind in "USO" else kind, name
        )
        self._parsed = parsed

    @property
    def parsed(self) -> Parsed | None:
        """The feature of serialized Examples that it stands for; None if requests give its values."""
        return self._parsed

    def set_shape(self, shape: Iterable[int | None]) -> None:
        """Say what sizes it has, where they are not known.

        Raises:
            ValueError: It has others.
        """
        given = tuple(shape)
        known = (None,) * len(given) if self._shape is None else self._shape
        pairs = list(zip(known, given, strict=False))
        if len(known) != len(given) or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise ValueError(f"Shapes {known} and {given} are not compatible: {self!r} has the former.")
        self._shape = tuple(own if size is None else size for own, size in pairs)

    def get_shape(self) -> tuple[int | None, ...] | None:
        """Return the shape."""
        return self._shape

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self!r} has no values before the model is served. Compute features of it by TensorFlow's "
            "operations, or in the model_fn. Give Dataset.from_tensor_slices the arrays themselves. "
            "Write a graph that a Session would run as a model_fn or a tf.function, whose arguments are the "
            "placeholders."
        )


@dataclass(frozen=True, eq=False)
class PlaceholderCall:
    """A function of what placeholders stand for.

    Attributes:
        function: Takes and returns arrays, as a function for ``Dataset.map`` does.
        args: Its arguments, in which placeholders stand for values.
        kwargs: Its named arguments, likewise.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: Any

    def results(self, value: Callable[[Placeholder], Any]) -> Any:
        """Return its results, given what returns the value of a placeholder."""
        args, kwargs = replaced((self.args, self.kwargs), Placeholder, value)
        found = spread(lambda _: self.function(*args, **kwargs), None)
        return tuple(found) if isinstance(found, list) else found


class ComputedPlaceholder(Placeholder):
    """Stands for values that an exported model computes of those of other placeholders.

    Args:
        dtype: As for `Placeholder`.
        shape: As for `Placeholder`.
        compute: Returns the values, given those of ``sources`` in their order.
        sources: The placeholders that it needs; each is one that requests fill, or parsed of one.
        call: What else computes them: on the host, of the values of any placeholders.
        number: Which of the leaves of its results it is.
        column_of: The source whose values, in a single axis, are its column; None if it has others.
    """

    __slots__ = ("_call", "_column_of", "_compute", "_number", "_sources")

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None],
        compute: Callable[[Sequence[Any]], Any],
        sources: Sequence[Placeholder],
        call: PlaceholderCall,
        number: int,
        column_of: Placeholder | None = None,
    ) -> None:
        super().__init__(dtype, shape)
        self._compute, self._sources, self._column_of = compute, tuple(sources), column_of
        self._call, self._number = call, number

    @property
    def call(self) -> PlaceholderCall:
        """The call that computes the values on the host."""
        return self._call

    @property
    def number(self) -> int:
        """Its index among the leaves of the call's results."""
        return self._number

    @property
    def sources(self) -> tuple[Placeholder, ...]:
        """The placeholders that it needs."""
        return self._sources

    @property
    def column_of(self) -> Placeholder | None:
        """The source whose values are its only column; None if it has others."""
        return self._column_of

    def compute(self, values: Sequence[Any]) -> Any:
        """Compute the values, given those of the sources."""
        return self._compute(values)
