"""The engine of variables that are stored on another device than those that compute."""

from typing import Any

import jax
from jax.sharding import Sharding

from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced


class StorageEngine(Engine):
    """Moves variables from their storage to the replicas for each step of another engine, and back.

    Args:
        engine: Compiles the steps.
        compute: Where the steps take variables.
        storage: Where variables are between steps. Values per replica stay with their replicas.
    """

    def __init__(self, engine: Engine, compute: Sharding | None, storage: Sharding) -> None:
        self._engine = engine
        self._compute = compute
        self._storage = storage

    def compile(self, traced: Traced, executables: Executables | None = None) -> Step:
        step = self._engine.compile(traced, executables)

        def stored(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            state, reads = _moved(traced.state, state, self._compute), jax.device_put(reads, self._compute)
            state, results = step(state, reads, batch)
            return _moved(traced.new_state, state, self._storage), results

        return stored


def _moved(sharded: Any, state: State, to: Sharding | None) -> State:
    return jax.tree.map(lambda stays, part: part if stays else jax.device_put(part, to), sharded, state)
