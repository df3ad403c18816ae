"""Compile steps that also return the values that hooks request by name."""

from collections.abc import Callable
from typing import Any

from muster.distribute.engine import CompiledStep, Reads, State, Step
from muster.estimator._estimator_spec import EstimatorSpec
from muster.program.trace import Program


class RequestedOutputs:
    """Finds values that a model_fn offers, and lets its step return them once they are asked for.

    Whoever asks before the first step costs nothing but the values. Asking later compiles the step anew.

    Args:
        program: The traced model_fn.
        compile: Compiles it for the devices; called anew if values are asked for late.
        alone: Whether this process can compile anew by itself: others may be in the middle of a step.
    """

    def __init__(self, program: Program[EstimatorSpec], compile: Callable[[], Step], *, alone: bool) -> None:
        self._program = program
        self._compile = compile
        self._alone = alone
        self._step = compile()
        self._begun = False

    def step(self, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        """Run the step, with what has been asked for among its outputs."""
        self._begun = True
        return self._step(state, reads, batch)

    def prepare(self, state: State, reads: Reads, batch: Any) -> None:
        """Compile the step for batches like this one, unless functions run eagerly."""
        self._begun = True
        if isinstance(self._step, CompiledStep):
            self._step.prepare(state, reads, batch)

    def ask(self, name: str) -> bool:
        """Ask for a value by name, from the next step on; return whether there is one.

        Raises:
            RuntimeError: The step has been compiled, together with other processes.
        """
        if name not in self._program.offered:
            return False
        if self._begun and not self._alone:
            raise RuntimeError(
                f"A hook asks for {name!r} for the first time when the step is compiled already, which other "
                "processes would have to compile anew too. Ask for it in begin, after_create_session or the "
                "first before_run, or name it by tf.identity or muster.program.name_output."
            )
        self._program.expose(name)
        if self._begun:
            self._step = self._compile()
        return True

    def name_of(self, value: object) -> str | None:
        """Return the name of a value that the model_fn had in its hands when it was traced, if it has one."""
        if value is self._program.static.loss:
            return "loss"
        return next((name for name, each in self._program.offered.items() if each is value), None)
