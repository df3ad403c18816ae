"""Programs on a strategy's replicas, as Estimators run them."""

from collections.abc import Callable
from typing import Any

from muster.distribute import Strategy
from muster.distribute.engine._split import Split
from muster.distribute.strategies._programs import compile_program, start_program
from muster.program.trace._program import Program


def started(
    strategy: Strategy, program: Program[Any], executables: dict[str, Any] | None = None
) -> tuple[Any, Callable[[Any, Any], tuple[Any, Any]]]:
    """The initial state of a program, and its step: ``(state, batch) -> (state, outputs)``."""
    split = Split.alone(strategy.local_replicas)
    step = compile_program(strategy, program, {} if executables is None else executables)
    state = start_program(strategy, program.initial).peek()
    return state, lambda state, batch: step(state, (), split.worker_batch(batch))
