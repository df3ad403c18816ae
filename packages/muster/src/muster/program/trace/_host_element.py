"""Record operations on text, ragged and sparse values, and compute them on the host before each step."""

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._integers import first_out_of_range
from muster.data import (
    RaggedTensor,
    SparseTensor,
    StandIn,
    StandInSource,
    flatten,
    rebuild,
    replaced,
    spec_of,
    spread,
)
from muster.program.variables._variable_scope import shared_with_step, sharing


@dataclass(frozen=True)
class HostCall:
    """A function of values that the host has.

    Attributes:
        key: Equal for equal functions of equal arguments, in any trace.
        function: Takes and returns arrays, as a function for ``Dataset.map`` does.
        args: Its arguments, with a `HostPlace` where it takes a value of the host's.
        kwargs: Its named arguments, likewise.
    """

    key: str
    function: Callable[..., Any]
    args: Any
    kwargs: Any

    def results(self, values: dict[str, Any]) -> Any:
        """Return its results for a batch.

        Args:
            values: The values of the batch by keys, to which the results are added.
        """
        args, kwargs = replaced((self.args, self.kwargs), HostPlace, lambda place: place.value(values))
        found = spread(lambda _: self.function(*args, **kwargs), None)
        found = tuple(found) if isinstance(found, list) else found
        values.update({self.place(number).key: leaf for number, leaf in enumerate(flatten(found))})
        return found

    def place(self, number: int) -> "HostPlace":
        """Return where one of its results is."""
        return HostPlace(f"{self.key}/{number}", self)


@dataclass(frozen=True)
class HostPlace:
    """Finds a value that the host has: in a batch, or among the results of a call.

    Attributes:
        key: Its name.
        call: The call; None if it is of the batch.
    """

    key: str
    call: HostCall | None = None

    def value(self, values: dict[str, Any]) -> Any:
        """Return the value in a batch: see `HostCall.results`."""
        if self.key not in values and self.call is not None:
            self.call.results(values)
        return values[self.key]

    def sources(self) -> set[str]:
        """Return the keys of the batch's values of which it is computed."""
        if self.call is None:
            return {self.key}
        return {key for place in _found((self.call.args, self.call.kwargs)) for key in place.sources()}


class HostValue(StandIn):
    """A value of a batch with which a step cannot compute, such as text, as code that is traced sees it."""

    __slots__ = ()

    source: "HostElement"
    place: HostPlace

    @property
    def shape(self) -> Any:
        """The sizes, as the step has them."""
        return self.traced_zeros().shape

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Any:
        """Return what is ragged with padded rows: see `RaggedTensor.to_tensor`."""
        return self.source.compute(_padded, (self, default_value, shape), {})

    def traced_zeros(self) -> Any:
        """Return an array of the step that has the shape."""
        return self.source.compute(_zeros, (self,), {})

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        if is_wide(self.place.value(self.source.examples)):
            raise DatasetError(
                f"{self.place.key} has numbers of type {self.dtype} that do not fit into 32 bits, in which "
                "steps compute. A model_fn may pass such numbers on to its predictions, and functions of tf. "
                "compute with them on the host; else bring them into range in the input pipeline (x % 2**31, "
                "say), or set jax_enable_x64."
            )
        raise DatasetError(
            f"A step computes with arrays of numbers, and {self.place.key} is text, or is ragged or sparse. "
            "Lookup tables and tf.strings turn text into numbers, in a model_fn or the input pipeline; "
            "feature columns do so, too."
        )

    __bool__ = _refuse


class HostElement(StandInSource):
    """A batch as code that is traced sees it, as far as a step cannot compute with it.

    A function of its values is computed on the host, for each batch; its results are inputs of the step once
    they are numbers. In the first trace, which finds out what is to be computed, they are constants.

    Args:
        examples: The values of a batch by keys.
        inputs: Those that the step has, too, as it has them.
        computed: What the host has computed of the batch, by the keys of `asked`: inputs of the step.
        wide: The keys of results that stay on the host, since other batches have integers that a step cannot
            take.
        narrow: Those of results that are inputs of the step in other traces, and so in this.

    Attributes:
        asked: What a step needs and is not in ``computed``.
    """

    def __init__(
        self,
        examples: Mapping[str, Any],
        inputs: Mapping[str, Any],
        computed: Mapping[str, Any],
        wide: Collection[str] = (),
        narrow: Collection[str] = (),
    ) -> None:
        self._wide, self._narrow = wide, narrow
        # Arrays that the host has, too, by their ids.
        self._known = {id(value): (value, HostPlace(key)) for key, value in inputs.items()}
        self._values = dict(examples)
        self._inputs = inputs
        self._computed = computed
        self.asked: dict[str, HostPlace] = {}

    @property
    def examples(self) -> dict[str, Any]:
        """The values of a batch, and what was computed of them, by keys."""
        return self._values

    def place_of(self, value: Any) -> HostPlace | None:
        """Return where the host has a value, if the step has it as the batch does; else None."""
        if isinstance(value, HostValue):
            return value.place
        key = next((key for key, each in self._inputs.items() if each is value), None)
        return None if key is None else HostPlace(key)

    def known(self, arguments: Any) -> Any:
        """Return arguments with values of the batch for the step's inputs; None if there are other values."""
        found: list[Any] = []
        replaced(arguments, jax.core.Tracer, found.append)
        if not found or any(id(each) not in self._known for each in found):
            return None
        return replaced(arguments, jax.core.Tracer, lambda each: self._standing_for(self._known[id(each)][1]))

    def value(self, key: str) -> HostValue:
        """Return what stands for a value of the batch."""
        return self._standing_for(HostPlace(key))

    def compute(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the results of a function: arrays of the step, and what stands for text and rows.

        Args:
            function: Takes and returns arrays, as a function for ``Dataset.map`` does.
            args: Its arguments, which have values of this element in lists, tuples and dicts.
            kwargs: Its named arguments.

        Raises:
            DatasetError: The function fails.
            TypeError: It takes values that a step computes, too, or returns no row for each example.
        """
        places = replaced((args, kwargs), HostValue, lambda value: value.place)
        places = replaced(places, jax.Array, lambda each: self._known.get(id(each), (each, each))[1])
        if any(isinstance(each, jax.core.Tracer) for each in jax.tree.leaves(places)):
            raise TypeError(
                f"{function.__name__} takes a value of the batch that the host has, such as text, and one "
                "that the step computes. The host is done before the step begins: look up text first."
            )
        call = HostCall(_key_of(function, places), function, *places)
        with jax.ensure_compile_time_eval():
            try:
                results = call.results(self._values)
            except (TypeError, ValueError) as exc:
                keys = ", ".join(sorted({key for each in _found(places) for key in each.sources()}))
                raise DatasetError(
                    f"{function.__name__} fails with {keys}, which is text, or ragged or sparse: {exc}. "
                    "Steps compute with arrays of numbers. Lookup tables and tf.strings turn text into "
                    "these, in a model_fn or the input pipeline; feature columns do so, too."
                ) from exc
        leaves = [self._leaf(call.place(number), leaf) for number, leaf in enumerate(flatten(results))]
        return rebuild(results, leaves)

    def _leaf(self, place: HostPlace, example: Any) -> Any:
        rows = {_shape(self._values[key])[0] for key in place.sources()}
        if _shape(example)[:1] != (*rows,):
            raise TypeError(
                f"{place.key.partition('-')[0]} of text, or of what is ragged or sparse, returns the shape "
                f"{_shape(example)} for {max(rows)} examples: in a step, it is to return a row for each."
            )
        is_input = place.key in self._narrow or not is_wide(example)
        if not is_array_of_numbers(example) or not is_input or place.key in self._wide:
            return self._standing_for(place)
        made = self._computed.get(place.key)
        if made is None:
            self.asked[place.key] = place
            made = jnp.asarray(example)
        self._known[id(made)] = made, place
        return made

    def _standing_for(self, place: HostPlace) -> HostValue:
        return HostValue(spec_of(place.value(self._values)), self, place)


class HostWork:
    """The values that steps need from the host, as found when they were traced.

    Attributes:
        wide: The keys of integers that a later batch has shown not to fit into 32 bits, of the batch or among
            results: they stay on the host.
    """

    def __init__(self) -> None:
        self.wide: set[str] = set()
        self._asked: dict[str, HostPlace] = {}
        self._elements: list[HostElement] = []

    @property
    def places(self) -> tuple[HostPlace, ...]:
        """The values that steps need."""
        return tuple(self._asked.values())

    @contextlib.contextmanager
    def traced(
        self, examples: Mapping[str, Any], inputs: Mapping[str, Any], computed: Mapping[str, Any]
    ) -> Iterator[HostElement]:
        """Yield a batch for code that is traced in a ``with`` block: see `HostElement`."""
        element = HostElement(examples, inputs, computed, self.wide, self._asked)
        self._elements.append(element)
        with sharing(HostElement, element):
            yield element

    def learn(self) -> bool:
        """Compute what steps that were traced ask for from now on; return whether that is new."""
        asked = {key: place for element in self._elements for key, place in element.asked.items()}
        self._elements.clear()
        new = asked.keys() - self._asked.keys()
        self._asked |= {key: asked[key] for key in sorted(new)}
        return bool(new)

    def computed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what steps need of a batch: see `host_computed`."""
        places = [place for key, place in self._asked.items() if key not in self.wide]
        return host_computed(values, places)


def _traced() -> HostElement | None:
    """Return the batch on which a step is traced, if the host has it."""
    return shared_with_step(HostElement)  # type: ignore[no-any-return]


def known_on_host(arguments: Any) -> Any:
    """Return arguments of a traced function as the host knows them.

    Returns:
        The arguments, with what stands for a value of the batch in place of each value that is traced; None
        if one of them is no input of the step.
    """
    element = _traced()
    return None if element is None else element.known(arguments)


def host_place(value: Any) -> HostPlace | None:
    """Return where the host has a value of a step that is traced, if it is one of its batch; else None."""
    element = _traced()
    return None if element is None else element.place_of(value)


def is_wide(value: Any) -> bool:
    """Return whether an array has integers that do not fit into the type that JAX uses in place of theirs."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        return False
    narrow = jax.dtypes.canonicalize_dtype(value.dtype)
    return narrow != value.dtype and first_out_of_range(value, np.iinfo(narrow)) is not None


def is_tracing_batch() -> bool:
    """Return whether a step is traced on a batch that the host has: it cannot run uncompiled instead."""
    return _traced() is not None


def host_computed(examples: Mapping[str, Any], places: Iterable[HostPlace]) -> dict[str, Any]:
    """Return what the host computes of a batch, by keys: arrays of numbers with a row for each example.

    Args:
        examples: The values of the batch by keys.
        places: What to compute. What needs a value that the batch does not have, as labels in prediction, is
            left out.
    """
    values, computed = dict(examples), {}
    for place in places:
        if place.sources() <= examples.keys():
            computed[place.key] = np.asarray(place.value(values))
    return computed


def is_array_of_numbers(value: Any) -> bool:
    """Return whether a step can compute with a value of a batch."""
    if isinstance(value, RaggedTensor | SparseTensor):
        return False
    return (value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype).kind in "biufcV"


def _found(arguments: Any) -> list[HostPlace]:
    found: list[HostPlace] = []
    replaced(arguments, HostPlace, found.append)
    return found


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _zeros(value: Any) -> np.ndarray[Any, Any]:
    return np.zeros(_shape(value), bool)


def _padded(value: Any, default_value: Any, shape: Any) -> Any:
    return value.to_tensor(default_value, shape=shape)


def _key_of(function: Callable[..., Any], arguments: Any) -> str:
    """Return a key that is equal for equal functions of equal arguments: it outlives a trace.

    Objects say by a method ``content_key`` what makes them equal; for others it is their ``repr``.
    """
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode())

    def add(value: Any) -> None:
        if isinstance(value, dict | list | tuple):
            digest.update(f"{type(value).__name__}{len(value)}".encode())
            for each in value.items() if isinstance(value, dict) else value:
                add(each)
        elif isinstance(value, HostPlace):
            digest.update(b"place" + value.key.encode())
        elif isinstance(value, np.ndarray | jax.Array):
            add([value.shape, str(value.dtype), np.asarray(value).tolist()])
        elif hasattr(type(value), "content_key"):
            add(value.content_key())
        else:
            digest.update(repr(value).encode())

    add(arguments)
    return f"{function.__name__}-{digest.hexdigest()[:16]}"
