"""Record the operations of a tape on watched values, and compute derivatives from the record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import GradientError
from muster._keras import keras
from muster.program.gradients._tape_trace import Operation, alias


@dataclass(frozen=True)
class _Step:
    """An operation: how to compute it again, on what, and what came of it."""

    operation: Operation
    operands: Sequence[Any]
    results: Sequence[Any]


class TapeRecord:
    """The operations that lead from watched values to others, in order.

    Values are told apart by identity; the record keeps them, so that identities stay theirs.

    Args:
        watches_variables: Whether trainable variables are watched as soon as they are read.

    Attributes:
        of_step: Whether it notes what a step does while it is traced, rather than eager code.
    """

    def __init__(self, watches_variables: bool = True) -> None:
        self.watches_variables = watches_variables
        self.of_step = False
        self.forget()

    def forget(self) -> None:
        """Forget all operations and values, and what is watched."""
        self._steps: list[_Step] = []
        self._values: dict[int, Any] = {}  # what is watched, and what was computed from it
        self._computed: set[int] = set()
        self._variables: dict[int, tuple[Any, list[Any]]] = {}  # with the arrays that they have had

    def follows(self, values: Sequence[Any]) -> bool:
        """Return whether any of these values is watched, or was computed from one that is."""
        followed = self._values
        return any([id(value) in followed for value in values])

    def note(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Note an operation with such an operand; derivatives do not go through integers."""
        floats = [result for result in results if _is_float(result)]
        if floats:
            self._steps.append(_Step(operation, operands, results))
            self._values.update((id(result), result) for result in floats)
            self._computed.update(map(id, floats))

    def watch(self, value: Any) -> None:
        """Follow what is computed from an array or a variable."""
        if isinstance(value, keras.Variable):
            self._variables.setdefault(id(value), (value, []))
        else:
            self._values[id(value)] = value

    def read(self, variable: Any, array: Any) -> Any:
        """Note that a variable is read.

        Args:
            variable: The variable.
            array: Its value.

        Returns:
            What the variable should have as its value: the same, or another object if the array was
            computed here. An assignment ends what derivatives go through.
        """
        known = self._variables.get(id(variable))
        if known is None:
            if not (self.watches_variables and variable.trainable and _is_float(array)):
                return array
            known = self._variables[id(variable)] = (variable, [])
        if id(array) in self._computed:
            array = alias(array)
        if not any(each is array for each in known[1]):
            known[1].append(array)
            self._values[id(array)] = array
        return array

    def watched_variables(self) -> list[Any]:
        """Return the variables that are watched, in the order of their first use."""
        return [variable for variable, _ in self._variables.values()]

    def arrays_of(self, source: Any) -> list[Any]:
        """Return the arrays that a source has been; none if it is not watched."""
        if isinstance(source, keras.Variable):
            return self._variables[id(source)][1] if id(source) in self._variables else []
        return [source] if id(source) in self._values else []

    def pullback(self, targets: Sequence[Any], sources: Sequence[Any]) -> "Pullback":
        """Compute the derivatives of results by arrays.

        Args:
            targets: Arrays that were computed while the tape was open.
            sources: Arrays, watched or computed there.
        """
        steps = self._path(targets, sources)
        used = {id(value) for step in steps for value in step.operands} | set(map(id, targets))
        connected = [source for source in sources if id(source) in used]
        shifted = {id(source): source for source in connected if id(source) in self._computed}
        _refuse_deleted(steps, connected)

        def forward(arrays: list[Any]) -> list[Any]:
            values = dict(zip(map(id, connected), arrays, strict=True))
            shifts = {key: values.pop(key) for key in shifted}
            # A source that is computed from others is shifted by zero: the derivative by the shift is its.
            for key, shift in shifts.items():
                values[key] = shifted[key] + shift
            for step in steps:
                results = step.operation(*[values.get(id(value), value) for value in step.operands])
                for result, old in zip(results, step.results, strict=True):
                    key = id(old)
                    values[key] = result + shifts[key] if key in shifts else result
            return [values.get(id(target), target) for target in targets]

        starts = [jnp.zeros_like(each) if id(each) in shifted else each for each in connected]
        if not connected:
            return Pullback([None] * len(sources), lambda cotangents: [])
        _, back = jax.vjp(forward, starts)
        places = {id(source): place for place, source in enumerate(connected)}
        return Pullback([places.get(id(source)) for source in sources], lambda each: back(each)[0])

    def pushforward(
        self, targets: Sequence[Any], sources: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """Compute how results change with arrays.

        Args:
            targets: Arrays that were computed while the record was open.
            sources: Arrays that are watched.
            tangents: The change of each of them.

        Returns:
            The change of each target; None if it depends on no source.
        """
        steps = self._path(targets, sources)
        reached = {id(result) for step in steps for result in step.results} | set(map(id, sources))
        _refuse_deleted(steps, [])

        def forward(arrays: list[Any]) -> list[Any]:
            values = dict(zip(map(id, sources), arrays, strict=True))
            for step in steps:
                results = step.operation(*[values.get(id(value), value) for value in step.operands])
                values.update(zip(map(id, step.results), results, strict=True))
            return [values[id(target)] for target in targets if id(target) in reached]

        _, changes = jax.jvp(forward, (list(sources),), (list(tangents),))
        given = iter(changes)
        return [next(given) if id(target) in reached else None for target in targets]

    def _path(self, targets: Sequence[Any], sources: Sequence[Any]) -> list[_Step]:
        """Return the steps that lead from the sources to the targets, in order."""
        needed, back = set(map(id, targets)), []
        for step in reversed(self._steps):
            if any(id(result) in needed for result in step.results):
                needed.update(map(id, step.operands))
                back.append(step)
        reached, path = set(map(id, sources)), []
        for step in reversed(back):
            if any(id(value) in reached for value in step.operands):
                reached.update(map(id, step.results))
                path.append(step)
        return path


@dataclass(frozen=True)
class Pullback:
    """Takes derivatives by results back to derivatives by sources.

    Attributes:
        places: For each source where its derivative is in the list; None if no target depends on it.
        call: Takes an array for each target, of its shape and dtype; returns the derivatives.
    """

    places: list[int | None]
    call: Callable[[list[Any]], list[Any]]

    def __call__(self, cotangents: list[Any]) -> list[Any]:
        """Return the derivative by each source, None if no target depends on it."""
        derivatives = self.call(cotangents)
        return [None if place is None else derivatives[place] for place in self.places]


def _is_float(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


def _refuse_deleted(steps: Sequence[_Step], sources: Sequence[Any]) -> None:
    values = [*sources, *(value for step in steps for value in step.operands)]
    for value in values:
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.is_deleted():
            raise GradientError(
                f"The tape needs an array of shape {tuple(value.shape)} that a compiled step has overwritten "
                "since. Ask for the gradients before the next call of a function or of fit that trains the "
                "same variables."
            )
