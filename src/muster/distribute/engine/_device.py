"""The engine of one device: whichever JAX chooses, or the one where the state is."""

import functools
from typing import Any

import jax

from muster import cpu
from muster.distribute.engine._compiled import CompiledStep, compiled, in_turn
from muster.distribute.engine._limits import Limits
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced


class DeviceEngine(Engine):
    """Compiles for one device, on which there is nothing to reduce."""

    def compile(self, traced: Traced, executables: Executables | None = None) -> Step:
        if executables is None:
            return _jitted(traced)

        def make(state: State, reads: Reads, batch: Any, executables: Executables) -> Step:
            return compiled(functools.partial(in_turn, _run(traced)), (state, reads, batch), executables)

        return CompiledStep(make, executables)


def _run(traced: Traced) -> Step:
    return lambda state, reads, batch: traced.run(state, reads, batch, None)


def _jitted(traced: Traced) -> Step:
    """Return the step of a function.

    Its variables and arguments may come to live elsewhere, as when a strategy trains a model that a function
    without a strategy uses as well; so JAX chooses the compiled function by where they are.
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
            function = _run(traced)
            options = cpu.compiler_options(jax.jit(function).lower(state, reads, batch).as_text())
            run = jax.jit(function, donate_argnums=0, compiler_options=options)
        return run(state, reads, batch)

    return step
