"""The engine of a worker that fetches variables from parameter servers and pushes gradients."""

import functools
from typing import Any

from muster import cpu
from muster.distribute.engine._compiled import compiled_step
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._rows_in_files import in_files, step_on_files
from muster.distribute.engine._served_steps import Place, ServedTraining, TrainingServers
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced
from muster.program.variables import VariableKind

# What each worker has of its own: which numbers it draws, and what it measures or counts.
_OF_WORKERS = (VariableKind.SEED, VariableKind.METRIC, VariableKind.LOCAL)


class ServedEngine(Engine):
    """Compiles steps for one worker of an asynchronous job: pull, compute, push.

    The servers apply what the step does with gradients. The state of a step is `ServedState`; the first step
    takes the initial values, by path, from which servers start that have none.

    Args:
        servers: The servers.
        place: Chooses where variables lie.
    """

    looks_up_rows = True
    starts_lazily = True
    trains_hashed = True

    def __init__(self, servers: TrainingServers, place: Place) -> None:
        cpu.compute_at_once()
        self._servers = servers
        self._place = place

    def compile(self, traced: Traced, executables: Executables) -> Step:
        def evaluate(state: State, reads: Reads, batch: Any) -> Step:
            if in_files(state):
                alone = functools.partial(DeviceEngine().compile, executables=executables)
                return step_on_files(traced, state, batch, alone)
            return compiled_step(traced.step, (state, reads, batch), executables)

        own = [spec.path for spec in traced.variables if spec.kind in _OF_WORKERS]
        return ServedTraining(self._servers, self._place, traced, executables, own, evaluate).step
