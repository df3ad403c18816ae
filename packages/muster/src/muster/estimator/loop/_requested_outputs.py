"""Compile steps that also return the values that hooks request by name."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster.distribute.engine import BatchGroup, CompiledStep, Reads, State, Step
from muster.estimator._estimator_spec import EstimatorSpec
from muster.program.passes import needed_equations
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
        self._unused: frozenset[int] = frozenset()

    def step(self, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        """Run the step, with what has been asked for among its outputs.

        Raises:
            DatasetError: The batch holds a 64-bit integer that the step needs, and that JAX would truncate.
        """
        self._begun = True
        try:
            return self._step(state, reads, self._needed(batch))
        except DatasetError:  # before anything ran
            if not self._leave_out(batch):
                raise
            return self._step(state, reads, self._needed(batch))

    def prepare(self, state: State, reads: Reads, batch: Any) -> Step:
        """Compile the step for batches like this one, unless functions run eagerly, and return it.

        Raises:
            DatasetError: As for `step`.
        """
        self._begun = True
        if not isinstance(self._step, CompiledStep):
            return self._step
        try:
            return self._step.prepare(state, reads, self._needed(batch))
        except DatasetError:
            if not self._leave_out(batch):
                raise
            return self._step.prepare(state, reads, self._needed(batch))

    def _leave_out(self, batch: Any) -> bool:
        """Leave out of batches from now on what the step does not use; return whether that is new."""
        unused = self._find_unused(batch)
        new = not unused <= self._unused
        self._unused |= unused
        return new

    def _needed(self, batch: Any) -> Any:
        """Return a batch, or a group of them, with zeros in place of what the step does not use."""
        if not self._unused:
            return batch
        leaves, structure = jax.tree.flatten(batch)
        each = len(leaves) // (len(batch.batches) if isinstance(batch, BatchGroup) else 1)
        kept = [np.zeros_like(x) if n % each in self._unused else x for n, x in enumerate(leaves)]
        return jax.tree.unflatten(structure, kept)

    def _find_unused(self, batch: Any) -> frozenset[int]:
        """Return the numbers of the arrays of a batch that its step does not use, such as keys."""
        batch = batch.batches[0] if isinstance(batch, BatchGroup) else batch
        state = {v.path: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in self._program.variables}
        try:
            jaxpr = jax.make_jaxpr(self._program.step)(state, batch).jaxpr
        except Exception:  # what a model_fn raises outside of its replicas; the integers are the error then
            return frozenset()
        _, needed = needed_equations(jaxpr.eqns, jaxpr.outvars, with_effects=True)
        inputs = jaxpr.invars[len(state) :]
        return frozenset(number for number, var in enumerate(inputs) if var not in needed)

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
