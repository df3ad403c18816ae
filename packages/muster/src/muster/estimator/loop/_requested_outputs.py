"""Compile steps that also return the values that hooks request by name."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from muster._errors import DatasetError
from muster.distribute.engine import (
    BatchGroup,
    CompiledStep,
    Reads,
    ReplicatedBatch,
    State,
    Step,
    UnevenBatch,
    unwrapped,
)
from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart, for_step, named
from muster.program import is_wide
from muster.program.passes import needed_equations
from muster.program.trace import Program

Result = TypeVar("Result")

_log = logging.getLogger(__name__)

# How often a step is traced, until it asks for nothing more of the host.
_TRACES = 8


class RequestedOutputs:
    """Finds values that a model_fn offers, and lets its step return them once they are asked for.

    Whoever asks before the first step costs nothing but the values. Asking later compiles the step anew.

    Args:
        program: The traced model_fn.
        compile: Compiles it for the devices; called anew if values are asked for late.
        alone: Whether this process can compile anew by itself: others may be in the middle of a step.
        host: What computes with integers that turn out not to fit into 32 bits; None if nothing does.
    """

    def __init__(
        self,
        program: Program[EstimatorSpec],
        compile: Callable[[], Step],
        *,
        alone: bool,
        host: HostPart | None = None,
    ) -> None:
        self._host = host if alone else None
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
        return self._tried(batch, lambda needed: self._step(state, reads, needed))

    def prepare(self, state: State, reads: Reads, batch: Any) -> Step:
        """Compile the step for batches like this one, unless functions run eagerly, and return it.

        Raises:
            DatasetError: As for `step`.
        """
        self._begun = True
        step = self._step
        if not isinstance(step, CompiledStep):
            return step
        return self._tried(batch, lambda needed: step.prepare(state, reads, needed))

    def _tried(self, batch: Any, act: Callable[[Any], Result]) -> Result:
        """Do something with what a step needs of a batch; again if integers in it do not fit after all."""
        while True:
            shown = self._each(batch, self._host.widened) if self._host is not None else batch
            try:
                return act(self._needed(self._each(shown, for_step)))
            except DatasetError:  # before anything ran
                if not (self._leave_out(self._each(shown, for_step)) or self._widen(shown)):
                    raise

    def _each(self, batch: Any, function: Callable[[StepBatch], StepBatch]) -> Any:
        if isinstance(batch, BatchGroup):
            return BatchGroup([self._each(each, function) for each in batch.batches])
        if isinstance(batch, ReplicatedBatch | UnevenBatch):
            return type(batch)(function(batch.batch))
        return function(batch) if isinstance(batch, StepBatch) else batch

    def _widen(self, batch: Any) -> bool:
        """Let the host keep the integers of a batch that do not fit; return whether the model_fn allows it.

        It does if functions compute with them, as with text. The step is traced anew, at its next call.
        """
        batches = [*map(unwrapped, batch.batches if isinstance(batch, BatchGroup) else [batch])]
        if self._host is None or not all(isinstance(each, StepBatch) for each in batches):
            return False
        work = self._host.work
        found = {
            key
            for each in batches
            for key, value in {**named(each), **each.computed}.items()
            if is_wide(value)
        }
        if not found - work.wide:
            return False
        before = set(work.wide)
        work.wide |= found
        try:
            for _ in range(_TRACES):
                self._make_jaxpr(for_step(self._host.like_example(self._host.widened(batches[0]))))
                if not work.learn():
                    break
        except Exception:  # the integers are the error then
            work.wide = before
            _log.debug("The host cannot keep %s.", sorted(found), exc_info=True)
            return False
        self._unused = frozenset()
        _log.info(
            "%s has integers that do not fit into 32 bits: what functions make of them is computed on the "
            "host from here on.",
            ", ".join(sorted(found)),
        )
        return True

    def _make_jaxpr(self, batch: StepBatch) -> Any:
        state = {v.path: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in self._program.variables}
        return jax.make_jaxpr(self._program.step)(state, batch).jaxpr

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
        try:
            jaxpr = self._make_jaxpr(batch)
        except Exception:  # what a model_fn raises outside of its replicas; the integers are the error then
            return frozenset()
        _, needed = needed_equations(jaxpr.eqns, jaxpr.outvars, with_effects=True)
        inputs = jaxpr.invars[len(self._program.variables) :]
        returned = {id(var) for var in jaxpr.outvars}
        return frozenset(n for n, var in enumerate(inputs) if var not in needed and id(var) not in returned)

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
