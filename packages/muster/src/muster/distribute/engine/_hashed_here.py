"""Training of hashed tables in one process: their rows lie in its memory, all else on its device."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax

from muster.checkpoint import PartsUnderWay
from muster.distribute.engine._flat_arrays import Buffers
from muster.distribute.engine._hashed_columns import SavedColumn, is_hashed
from muster.distribute.engine._plans import plans_of
from muster.distribute.engine._served_steps import ServedState, ServedTraining, TrainingServers
from muster.distribute.engine._shards import Division
from muster.distribute.engine._traced import Executables, State, Traced
from muster.program.variables import InitialValue
from muster.ps import Array, Held, LocalStore, Pulled, Pushed, SharedInput
from muster.ps.contents.updates import JaxDevice


def trains_hashed_here(state: State) -> bool:
    """Return whether a state is one to train hashed tables from in this process."""
    if isinstance(state, ServedState):
        return True
    values = state.values() if isinstance(state, Mapping) else ()
    return any(isinstance(each, InitialValue | SavedColumn) and is_hashed(each.shape) for each in values)


def hashed_training(traced: Traced, executables: Executables, state: State) -> ServedTraining:
    """Return the steps of a program with hashed tables.

    Args:
        traced: The program.
        executables: As of ``Engine.compile``.
        state: Its state: the first one, or that of a training that goes on with other outputs.
    """
    own = [spec.path for spec in traced.variables if not is_hashed(spec.shape)]
    first = state if isinstance(state, ServedState) else None
    servers: TrainingServers = _ServerHere() if first is None else first.servers
    return ServedTraining(servers, lambda variables: {}, traced, executables, own, alone=True, first=first)


class _ServerHere:
    """One parameter server, in this process. What it computes is for CPUs, as that of others."""

    count = 1
    current: Any = None
    upcoming: Any = None
    fetches_ahead = False
    shared: SharedInput | None = None
    open: Sequence[int] = ()

    def start(self, division: Division, values: Mapping[str, Any]) -> list[Buffers]:
        """Make the tables; return what is read as a whole."""
        (plan,), (first,) = plans_of(division), division.split(values)
        with _on_cpu():
            self._store = LocalStore(plan, first, JaxDevice())
        return self.pull()

    def look_up(self, ids: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return rows of the tables, by ids."""
        return [self._store.look_up(ids[0])]

    def push_and_pull(self, pushed: Sequence[Pushed]) -> list[Pulled]:
        """Update the tables, and return what is read as a whole."""
        with _on_cpu():
            return [self._store.push(pushed[0])]

    def pull(self) -> list[Buffers]:
        """Return what is read as a whole."""
        with _on_cpu():
            return [self._store.pull()]

    def read(self) -> list[Held]:
        """Return all values that are no rows: none."""
        return [Held({}, {})]

    def save(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay:
        """Begin to write the tables into a checkpoint."""
        return self._store.begin_part(folder, files[0])


def _on_cpu() -> AbstractContextManager[Any]:
    """Let JAX compute on a CPU of this process in a ``with`` block."""
    device: AbstractContextManager[Any] = jax.default_device(jax.local_devices(backend="cpu")[0])
    return device
