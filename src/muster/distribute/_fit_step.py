"""What Keras calls for each step of ``fit``, ``evaluate`` and ``predict``."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from muster.distribute._compiled import Step


class KerasFunction:
    """``(state, iterator) -> (results, state)``, as Keras' trainer wants it.

    Args:
        draw: takes Keras' iterator, and returns this process' part of the next batch.
        step: ``(state, batch) -> (state, results)``.
        place: puts state that Keras read from its variables where the step takes it.
        several: how many steps a call takes.
        after: called after them with their number and the last results; None for nothing.
        rescue: called with the state as it is where a call fails.
        concatenates: whether the results of the steps of a call are put together; else the last ones count.

    Attributes:
        skipping: whether the last call did nothing, as its steps were done before training was interrupted.
        to_skip: so many steps remain of which this is so.
        steps_per_call: how many steps a call takes.
    """

    def __init__(
        self,
        draw: Callable[[Iterator[Any]], Any],
        step: Step,
        place: Callable[[Any], Any],
        several: int,
        after: Callable[[int, Any], None] | None,
        rescue: Callable[[Any], None],
        *,
        concatenates: bool,
    ) -> None:
        self.skipping = False
        self.steps_per_call = several
        self._draw = draw
        self._step = step
        self._place = place
        self._after = after
        self._rescue = rescue
        self._concatenates = concatenates
        self._last: Any = None
        self.to_skip = 0
        self._skipped_logs: Any = None
        self._catch_up: Callable[[Iterator[Any]], None] | None = None

    def skip(self, steps: int, logs: Any, catch_up: Callable[[Iterator[Any]], None]) -> None:
        """Take no steps for a while.

        Args:
            steps: for so many.
            logs: what calls return meanwhile.
            catch_up: called with Keras' iterator at the end.
        """
        self.to_skip, self._skipped_logs, self._catch_up = steps, logs, catch_up

    def forget(self) -> None:
        """Let go of the last state, which is only the variables' from here on, and may be replaced there."""
        self._last = None

    def __call__(self, state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        self.skipping = self.to_skip > 0
        if self.skipping:
            self.to_skip -= self.steps_per_call
            if state is not self._last:
                state = self._last = self._place(state)
            if self.to_skip <= 0 and self._catch_up is not None:
                self._catch_up(iterator)
            return self._skipped_logs, state
        results: list[Any] = []
        try:
            for _ in range(self.steps_per_call):
                try:
                    batch = self._draw(iterator)
                except StopIteration:
                    if not results:
                        raise
                    break
                if state is not self._last:  # Keras has read it from the variables
                    state = self._place(state)
                state, result = self._step(state, batch)
                self._last = state
                results.append(result)
        except StopIteration:
            raise
        except BaseException:
            self._rescue(state)
            raise
        if self._after is not None:
            self._after(len(results), results[-1])
        if not self._concatenates or len(results) == 1:
            return results[-1], state
        return jax.tree.map(lambda *each: jnp.concatenate(each), *results), state
