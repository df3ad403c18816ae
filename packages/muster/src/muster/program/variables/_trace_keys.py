"""Retrace a program's own ``jax.jit`` functions if their cached traces would read other variables' values."""

import contextlib
from collections.abc import Hashable, Iterator

import jax
from jax.extend import core as jex

# Part of the key under which JAX caches traces.
_KEY = jax.make_user_context(None)


class _Age:
    """A number that grows whenever traces that JAX has cached so far must not be taken again."""

    number = 0


class TraceKeys:
    """Lets JAX trace a program's own jit-compiled functions again where they would read other values.

    Such a function may read variables, or the number of its replica. They are no arguments of it: its trace
    has the values of the step that has traced it first, and of that moment. Most functions that are compiled
    inside of steps, as JAX's own are, read none, and are traced once for replicas of one kind.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[Hashable, contextlib.ExitStack]] = []
        self._outermost: object = None
        self._are_read = False

    @contextlib.contextmanager
    def of(self, kind: Hashable) -> Iterator[None]:
        """Run code whose reductions depend on a kind of replicas, and on nothing else but what it reads."""
        if not self._levels:
            self._outermost = jex.get_opaque_trace_state()
        try:
            with contextlib.ExitStack() as entered:
                self._levels.append((kind, entered))
                self._enter()
                yield
        finally:
            self._levels.pop()
            if self._levels:
                self._enter()  # what is around has its own kind, and may have become older
            else:
                self.note_change()

    def note_read(self) -> None:
        """Note that a value of the step is read, possibly by a function that JAX traces by itself."""
        if not self._are_read and self._levels and jex.get_opaque_trace_state() != self._outermost:
            self._are_read = True

    def note_change(self) -> None:
        """Note that values of the step change, or are gone."""
        if self._are_read:
            self._are_read = False
            _Age.number += 1
            if self._levels:
                self._enter()

    def _enter(self) -> None:
        kind, entered = self._levels[-1]
        entered.enter_context(_KEY((kind, _Age.number)))
