"""The Strategy: the one place that knows on which devices a step runs."""

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax

from muster.cluster import TaskState
from muster.distribute._compiled import CompiledStep, Executables, Step, compiled, in_turn
from muster.distribute._input_context import InputContext
from muster.distribute._shared_batches import Signals
from muster.program import Program, functions_run_eagerly

Array = Any
State = dict[str, Array]

# How long, in seconds, tasks may take to come up: two hours, as in TensorFlow.
MEET_SECS = 7200.0

_SCOPE: ContextVar["Strategy | None"] = ContextVar("muster_strategy", default=None)


class Strategy(ABC):
    """Decides three things: where state lives, how gradients meet, how input is split.

    Estimators, ``fit`` and custom loops all make a ``Program`` and hand it to the same strategy object.

    Source: tensorflow/python/distribute/distribute_lib.py, ``Strategy``; there is no ``extended`` here.
    """

    @property
    @abstractmethod
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all workers."""

    @property
    @abstractmethod
    def input_context(self) -> InputContext:
        """The share of the input that this process reads."""

    @property
    @abstractmethod
    def sharding(self) -> jax.sharding.Sharding | None:
        """Where the state lives; None leaves it to JAX, which takes its default device."""

    @contextlib.contextmanager
    def scope(self) -> Iterator["Strategy"]:
        """Make this the current strategy: what is built inside belongs to it.

        Raises:
            RuntimeError: inside of another strategy's scope.
        """
        current = _SCOPE.get()
        if current is not None and current is not self:
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects: the scope of "
                f"{self} was entered inside of the scope of {current}. Leave that scope first."
            )
        token = _SCOPE.set(self)
        try:
            yield self
        finally:
            _SCOPE.reset(token)

    def place(self, state: State) -> State:
        """Put the values of variables where they live under this strategy, once its step was made.

        Args:
            state: path -> array, on the host or on any device, global.

        Returns:
            The same values as arrays that a step may donate.
        """
        placed: State = jax.device_put(state, self.sharding)
        return placed

    def compile(self, program: Program[Any], executables: Executables) -> Step:
        """Make a program's step run on this strategy's devices. Workers check here that they run the same.

        Args:
            program: what to run.
            executables: what was compiled before, to be used again and added to.

        Returns:
            ``(state, batch) -> (state, outputs)``, which donates the state, and takes ``Several`` batches too
            unless functions run eagerly.
        """
        if functions_run_eagerly():
            return program.step_eagerly

        def make(state: State, batch: Any, executables: Executables) -> Step:
            step = functools.partial(in_turn, program.step)
            return compiled(step, (state, batch), (0,), executables)

        return CompiledStep(make, executables)

    @contextlib.contextmanager
    def share_batches(
        self, batches: Iterator[Any], first: Any, signals: Signals | None = None
    ) -> Iterator[Iterator[Any]]:
        """Make the batches of this worker those of its steps, of which all workers take as many.

        Args:
            batches: of this worker, each for one replica.
            first: the first of them.
            signals: what interrupts this worker; then workers that are interrupted end after the same step.

        Yields:
            The batches to step on. If a worker leaves the block without an error, all of them run out.
        """
        yield batches

    @contextlib.contextmanager
    def together(self, start_secs: float = MEET_SECS) -> Iterator[None]:
        """While the workers of a job depend on each other: an error in one ends all.

        Args:
            start_secs: how long a worker may keep the others waiting before it reports that it trains, in
                seconds.
        """
        yield

    @contextlib.contextmanager
    def doing(self, state: TaskState) -> Iterator[None]:
        """While this task does what the others are told of: for one that evaluates or saves they wait.

        Args:
            state: what it does.
        """
        yield

    @property
    def reporter(self) -> Callable[..., None] | None:
        """Tells the other tasks and the launcher how this one is: takes fields of ``cluster.Progress``."""
        return None

    @property
    def communication_secs(self) -> float:
        """How long this process has communicated so far, outside of compiled programs, in seconds."""
        return 0.0

    def tell_all(self, value: Any) -> list[Any]:
        """Tell all workers a JSON value, and learn what they tell, in their order. All must call this."""
        return [value]

    def __str__(self) -> str:
        return type(self).__name__


def current_strategy() -> Strategy | None:
    """The strategy whose scope this is, or None."""
    return _SCOPE.get()
