"""The engine that stores variables on one device and computes on others."""

from typing import Any

import jax
from jax.sharding import Sharding

from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced


class StorageEngine(Engine):
    """Moves variables to the replicas before each step of another engine, and back to their storage after it.

    Args:
        engine: Compiles the steps.
        compute: The sharding of variables in steps.
        storage: The sharding of variables between steps. Per-replica values stay with their replicas.
    """

    def __init__(self, engine: Engine, compute: Sharding | None, storage: Sharding) -> None:
        self._engine = engine
        self._compute = compute
        self._storage = storage

    def compile(self, traced: Traced, executables: Executables) -> Step:
        step = self._engine.compile(traced, executables)

        def stored(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            state = _moved(traced.state_sharded, state, self._compute)
            state, results = step(state, jax.device_put(reads, self._compute), batch)
            return _moved(traced.new_state_sharded, state, self._storage), results

        return stored


def _moved(per_replica: Any, state: State, to: Sharding | None) -> State:
    return jax.tree.map(lambda stays, part: part if stays else jax.device_put(part, to), per_replica, state)
