"""The parts of a step in which a tape records nothing."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core as jex

from muster.program.gradients._gradients import place


class StoppedParts:
    """The parts of a step in which a tape records nothing, each between two places in the trace."""

    def __init__(self) -> None:
        # Each with the trace that it is in: outside of it, as after the body of a loop, it is no operand.
        self._parts: list[tuple[Any, jax.Array, jax.Array]] = []
        self._begun: tuple[Any, jax.Array] | None = None

    @property
    def is_inside(self) -> bool:
        """True inside of such a part."""
        return self._begun is not None

    def begin(self) -> None:
        """Begin a part here."""
        self._begun = jex.get_opaque_trace_state(), place()

    def end(self) -> None:
        """End the part that was begun."""
        if self._begun is not None:
            trace, start = self._begun
            self._begun = None
            if trace == jex.get_opaque_trace_state():
                self._parts.append((trace, start, place()))

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[bool]:
        """Let no part include what is computed meanwhile, as the sums that gradients are of.

        Returns:
            A context; it gives whether a part is interrupted.
        """
        if self._begun is None or self._begun[0] != jex.get_opaque_trace_state():
            yield False
            return
        self.end()
        yield True
        self.begin()

    def ends(self) -> list[tuple[jax.Array, jax.Array]]:
        """Return where the parts of the trace of now begin and end."""
        trace = jex.get_opaque_trace_state()
        return [(start, end) for each, start, end in self._parts if each == trace]

    def forget(self) -> None:
        """Forget the parts that have ended."""
        self._parts.clear()
