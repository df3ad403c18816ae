"""The engine of one device: JAX's default device, or the device that holds the state."""

import functools
from typing import Any

import jax

from muster import cpu
from muster.distribute.engine._compiled import CompiledStep, compiled_step, scan_group
from muster.distribute.engine._hashed_here import hashed_training, trains_hashed_here
from muster.distribute.engine._limits import Limits
from muster.distribute.engine._rows_in_files import in_files, step_on_files
from muster.distribute.engine._served_steps import ServedTraining
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced
from muster.program.trace import no_collections


class DeviceEngine(Engine):
    """Compiles for one device, where nothing has to be reduced."""

    looks_up_rows = True
    trains_hashed = True

    def compile(self, traced: Traced, executables: Executables) -> Step:
        if traced.may_move:
            return _jitted(traced)
        training: ServedTraining | None = None

        def make(state: State, reads: Reads, batch: Any) -> Step:
            nonlocal training
            if trains_hashed_here(state):
                training = training or hashed_training(traced, executables, state)
                return training.step_for(state, reads, batch)
            if in_files(state):
                return step_on_files(traced, state, batch, lambda part: self.compile(part, executables))
            return compiled_step(
                functools.partial(scan_group, traced.step, traced.loss), (state, reads, batch), executables
            )

        return CompiledStep(make)


def _jitted(traced: Traced) -> Step:
    """Return a step that ``jax.jit`` compiles anew when its arguments have moved to another device.

    That happens when a strategy trains a model that a function without a strategy uses as well.
    """
    run: Step | None = None
    limits: Limits | None = None

    def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        nonlocal run, limits
        if limits is None:
            limits = Limits(batch)
        if limits.exist:
            limits.check(batch, batch)
        if run is None:
            cpu.keep_memory()
            function = traced.step  # one object, so that JAX traces it once
            with no_collections():
                lowered = jax.jit(function).lower(state, reads, batch)
            options = cpu.compiler_options(lowered.as_text())
            run = jax.jit(function, donate_argnums=0, compiler_options=options)
        return run(state, reads, batch)

    return step
