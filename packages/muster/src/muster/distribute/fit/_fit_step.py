"""The function that Keras calls for each step of ``fit``, ``evaluate`` and ``predict``."""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.engine._placement import Placement
from muster.distribute.engine._state_store import ArrayStore, StateStore
from muster.distribute.engine._traced import State, Step
from muster.distribute.fit._keras_loop import KerasLoop
from muster.distribute.workers import ElasticWorkers, WorkersChangedError
from muster.program import keepable
from muster.program.variables.keras_internals import set_values

# How many steps run before the losses of the first half of them are checked: when they are there, and waited
# for; and after how many it looks whether they are there. To wait for one interrupts the steps for as long as
# a small one takes.
_SOON, _UNCHECKED, _LOOKS = 16, 64, 8


class CountedSteps:
    """Counts the steps of a trainer, as a `muster.distribute.workers.ReplicatedLoop`.

    Args:
        workers: The workers, if they come and go.

    Attributes:
        count: The steps that were taken.
    """

    def __init__(self, workers: ElasticWorkers | None = None) -> None:
        self._workers = workers
        self._gives: Callable[[], tuple[Any, list[Any]] | None] | None = None
        self.count = 0

    def steps_taken(self) -> int:
        """Return how many steps the state has."""
        return self.count

    def give(self) -> tuple[Any, list[Any]] | None:
        """Return what a new worker needs to take the step that is under way; None if none can come."""
        return None if self._gives is None else self._gives()

    def under_way(
        self, gives: Callable[[], tuple[Any, list[Any]] | None] | None
    ) -> contextlib.AbstractContextManager[None]:
        """Return the context of a step, which the workers that are left make again if one is lost.

        Args:
            gives: Returns what `give` does; None if nobody can join in this step.
        """
        self._gives = gives
        return contextlib.nullcontext() if self._workers is None else self._workers.stepping(self)


class StepFunction:
    """The function that Keras' trainer calls for steps; skips those taken before an interruption.

    Args:
        steps_per_call: The number of steps in a call.

        others: Returns the variables of the state that Keras does not pass, the last ones of its order.

    Attributes:
        others: Returns the variables of the state that Keras does not pass.
        in_epoch: The number of steps that were taken in this epoch.
        left_out: The number of steps that the last call has not taken, for the same reason as `skipping`.
        skipping: Whether the last call did nothing, since its steps were done before an interruption.
        to_skip: The number of steps left to skip.
        steps_per_call: The number of steps in a call.
    """

    def __init__(self, steps_per_call: int, others: Callable[[], list[Any]]) -> None:
        self.others = others
        self.skipping = False
        self.in_epoch = 0
        self.steps_per_call = steps_per_call
        self.forget()

    def forget(self) -> None:
        """Forget what belongs to one call of a model's method."""
        self.to_skip = self.left_out = 0
        self.skipped_logs: Any = None
        self._catch_up: Callable[[Iterator[Any]], None] | None = None

    def skip(self, steps: int, logs: Any, catch_up: Callable[[Iterator[Any]], None]) -> None:
        """Skip the next steps.

        Args:
            steps: The number of steps to skip.
            logs: The results of the skipped calls.
            catch_up: Called with Keras' iterator after the last skipped call.
        """
        self.to_skip, self.skipped_logs, self._catch_up = steps, logs, catch_up

    def skips(self, iterator: Iterator[Any]) -> bool:
        """Return whether a call is to do nothing."""
        self.left_out = min(self.to_skip, self.steps_per_call)
        self.skipping = self.left_out == self.steps_per_call
        if self.left_out:
            self.to_skip -= self.left_out
            self.in_epoch += self.left_out
            if self.to_skip == 0 and self._catch_up is not None:
                self._catch_up(iterator)
        return self.skipping


class KerasFunction(StepFunction):
    """Takes steps as Keras' trainer calls them: ``(state, iterator) -> (results, state)``.

    Args:
        variables: Returns the variables of the state, in its order: those that Keras passes, and others.
        draw: Returns the next worker batch from Keras' iterator.
        step: ``(state, reads, batch) -> (state, results)``.
        place: Moves state that Keras has read from its variables to where the step takes it.
        placement: Chooses the store that holds the state between steps.
        steps_per_call: The number of steps in a call.
        after: Called after each call with the number of steps and the last results; None for nothing.
        explain: Called with the state and the batch of a step whose loss is NaN; may raise.
        uninterrupted: Entered for every step, which must not be interrupted.
        concatenates: Whether a call returns the concatenated results of its steps, rather than the last.
        others: Returns the variables that Keras does not pass.
        loop: Returns what goes on with Keras' loop after a step; None if Keras itself does.
        again: Called when other workers have interrupted a step, before it is made again; None if they
            cannot.
        counted: Counts the steps, where workers come and go.

    Attributes:
        gives: Returns what a worker that comes in a step needs; None if none can.
        after_first: Called after the next step, once; None for nothing.
    """

    def __init__(
        self,
        variables: Callable[[], list[Any]],
        draw: Callable[[Iterator[Any]], Any],
        step: Step,
        place: Callable[[State], State],
        placement: Placement,
        steps_per_call: int,
        after: Callable[[int, Any], None] | None,
        explain: Callable[[State, Any], None],
        uninterrupted: contextlib.AbstractContextManager[Any],
        *,
        concatenates: bool,
        others: Callable[[], list[Any]],
        loop: Callable[[], KerasLoop | None],
        again: Callable[[], None] | None = None,
        counted: "CountedSteps | None" = None,
    ) -> None:
        self._again = again
        self._counted = counted or CountedSteps()
        self._variables = variables
        self._draw = draw
        self._step = step
        self._place = place
        self._placement = placement
        self._after = after
        self._explain = explain
        self._uninterrupted = uninterrupted
        self._concatenates = concatenates
        self._loop = loop
        super().__init__(steps_per_call, others)

    def forget(self) -> None:
        """Release the last state: from here on only the variables hold it."""
        super().forget()
        self.gives: Callable[[], tuple[Any, list[Any]] | None] | None = None
        self.after_first: Callable[[], None] | None = None
        self._unchecked: list[tuple[Any, Any]] = []
        self._taken: list[Any] = []
        self._last: State = None
        self._given: State = None  # what the step was given from which it has been made
        self._shown: tuple[Any, ...] | None = None  # as Keras keeps the last state
        self._most = _UNCHECKED
        self._failed = self._has_ended = self._others_lag = False
        self._store: StateStore = ArrayStore(None)

    def give_back(self) -> bool:
        """Assign the last state to the variables whose values Keras has taken and will not return.

        After a failed call those are all variables, otherwise the variables without a readable value.

        Returns:
            Whether a call had failed.
        """
        failed, self._failed = self._failed, False
        self._unchecked = []
        self.give_others()
        values = jax.tree.leaves(self._last)
        # A step that runs eagerly may have created variables.
        variables = self._taken if len(self._taken) == len(values) else self._variables()
        for variable, value in zip(variables, values, strict=False):
            if failed or is_gone(variable):
                variable.assign(value)
        return failed

    def give_others(self) -> None:
        """Assign the last state to the variables that Keras does not pass, unless they have it already."""
        if self._others_lag and (count := len(self.others())):
            set_values(self._taken[-count:], jax.tree.leaves(self._last)[-count:])
        self._others_lag = False

    def check(self, *, ahead: int = 0) -> None:
        """Explain NaN among the losses of steps that have not been checked, but for the last ones.

        Keras' loss is the mean since the epoch began, so that it stays NaN.

        Args:
            ahead: The number of steps that may still be running.
        """
        count = len(self._unchecked) - ahead
        checked, self._unchecked = self._unchecked[:count], self._unchecked[count:]
        if checked and _is_nan(_loss_of(checked[-1][1])):
            first = next(batch for batch, result in checked if _is_nan(_loss_of(result)))
            self._explain(self._last, first)

    def catch_up(self) -> None:
        """Let Keras have the last state, if it has the one of an earlier step."""
        loop = self._loop()
        if loop is not None and loop.is_ahead:
            loop.catch_up(self._last)

    def __call__(self, state: State, iterator: Iterator[Any]) -> tuple[Any, State]:
        if self._has_ended:
            self._has_ended = False
            raise StopIteration
        results = self._call(state, iterator)
        loop = self._loop()
        if loop is not None:
            while (following := loop.further(results)) is not None:
                try:
                    results = self._call(self._last, following)
                except StopIteration:  # Keras is to know the results first
                    loop.again()
                    self._has_ended = True
                    break
            loop.is_ahead = False
        self._shown = tuple(self._last)
        return results, self._shown

    def _call(self, state: State, iterator: Iterator[Any]) -> Any:
        """Take the steps that Keras asks for, and return their results."""
        if state is self._shown:
            state = self._last
        if (self.to_skip or self.left_out) and self.skips(iterator):
            if state is not self._last:
                state = self._take(self._place(state))
            return self.skipped_logs
        self._failed = False
        results: list[Any] = []
        try:
            for _ in range(self.steps_per_call - self.left_out):
                try:
                    batch, state, result = self._next(iterator, state)
                except StopIteration:
                    if not results:
                        raise
                    break
                results.append(result)
                if not self._unchecked:
                    self._most = keepable(batch, _UNCHECKED)
                self._unchecked.append((batch, result))
            kept = len(self._unchecked)
            soon = kept >= _SOON and not kept % _LOOKS
            if kept >= self._most or (soon and _is_there(self._unchecked[kept // 2 - 1][1])):
                self._most = keepable(batch, _UNCHECKED)
                self.check(ahead=kept - kept // 2)
            if self._after is not None:
                self._after(len(results), results[-1])
            if self._concatenates and len(results) > 1:
                return jax.tree.map(lambda *each: jnp.concatenate(each), *results)
            return results[-1]
        except StopIteration:
            raise
        except BaseException:
            if state is not self._last and state is not self._given:
                self._take(state)
            self._failed = True
            raise

    def _next(self, iterator: Iterator[Any], state: State) -> tuple[Any, State, Any]:
        """Take the next step: return its batch, the new state and the results."""
        self._given = state
        if state is not self._last:  # Keras has read it from the variables
            self._take(self._place(state))
        if self._again is None:  # nobody comes or goes
            return self._drawn(iterator)
        while True:
            try:
                with self._counted.under_way(self.gives):
                    return self._drawn(iterator)
            except WorkersChangedError:
                self._again()

    def _drawn(self, iterator: Iterator[Any]) -> tuple[Any, State, Any]:
        """Draw a batch, and take a step with it."""
        batch, store = self._draw(iterator), self._store
        with self._uninterrupted:
            state, result = self._step(*store.take(), batch)
            store.give(state)
            self._last = state = store.peek()
        self._counted.count += 1
        self.in_epoch += 1
        if self.after_first is not None:
            first, self.after_first = self.after_first, None
            first()
        return batch, state, result

    def state(self) -> list[Any]:
        """Return the values of the state before the step that is under way, in the order of its variables."""
        return jax.tree.leaves(self._last)

    def _take(self, state: State) -> State:
        """Keep a state that Keras has read from its variables."""
        self._taken, self._last, self._others_lag = self._variables(), state, True
        self._store = self._placement.store(ArrayStore(state, [*map(id, self._taken)]))
        return state


def _loss_of(result: Any) -> Any:
    return result.get("loss", 0.0) if isinstance(result, dict) else 0.0


def _is_there(result: Any) -> bool:
    """Return whether a step's loss has been computed."""
    is_ready = getattr(_loss_of(result), "is_ready", None)
    return is_ready is None or is_ready()


def _is_nan(loss: Any) -> bool:
    """Return whether a scalar loss is NaN; False for losses by example, and structures."""
    return hasattr(loss, "__float__") and not np.ndim(loss) and math.isnan(loss)


def is_gone(variable: Any) -> bool:
    """Return whether a variable has no readable value."""
    try:
        return variable.value.is_deleted()  # type: ignore[no-any-return]
    except TypeError:  # Keras calls an initializer, which is None
        return True
