"""The replica view of a step: the same code on every device, each with its share of the batch."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from muster.distribute.engine._compiled import Executables, Several, State, Step, compiled, in_turn
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.functions._function import Traced, run_traced
from muster.distribute.input._shared_batches import Whole
from muster.distribute.replicas._random_keys import by_numbers
from muster.program import Program, Replicas

Array = Any

AXIS = "replica"


class ReplicatedStep:
    """Makes the step of a program for a mesh of replicas; their values meet in XLA's collectives.

    A batch whose rows the replicas can share equally is split; any other one is given whole to each of
    them and counted once.

    Args:
        program: what to run.
        mesh: the devices along one axis, ``AXIS``, over all processes.
        packing: which values are added together.
    """

    def __init__(self, program: Program[Any], mesh: Mesh, packing: Packing = ONE_PACK) -> None:
        self._program = program
        self._mesh = mesh
        self._packing = packing

    def __call__(self, state: State, batch: Any, executables: Executables) -> Step:
        function, place = self.function_for(batch)
        run = compiled(function, (state, place(batch)), (0,), executables)
        return lambda state, batch: run(state, place(batch))

    def function_for(self, batch: Any) -> tuple[Step, Callable[[Any], Any]]:
        """The step for batches like this one, and what puts such a batch onto the devices.

        Args:
            batch: a nested structure of arrays, per worker; all with the same number of rows. Or ``Several``.
        """
        count = self._mesh.size
        rows = {leaf.shape[0] for leaf in jax.tree.leaves(batch) if leaf.ndim}
        one = batch.batches[0] if isinstance(batch, Several) else batch
        whole = isinstance(one, Whole) or len(rows) != 1 or rows.pop() % len(self._mesh.local_devices) != 0
        spec = P() if whole else P(AXIS)
        outputs = jax.tree.map(lambda shape: spec if shape.shape else P(), self._program.outputs)

        def one_step(state: State, batch: Any) -> tuple[State, dict[str, Any]]:
            replicas = replicas_of_mesh(count, self._packing, active=1 if whole else count)
            own = batch.batch if isinstance(batch, Whole) else batch
            return self._program.step(state, own, replicas=replicas)

        step = jax.shard_map(
            functools.partial(in_turn, one_step),
            mesh=self._mesh,
            in_specs=(P(), jax.tree.map(lambda leaf: spec if leaf.ndim else P(), batch)),
            out_specs=(P(), outputs),
            check_vma=False,
        )
        shardings = jax.tree.map(lambda leaf: NamedSharding(self._mesh, spec if leaf.ndim else P()), batch)

        def place(batch: Any) -> Any:
            return jax.tree.map(jax.make_array_from_process_local_data, shardings, batch)

        return step, place


class ReplicatedFunction:
    """Makes the step of a function for a mesh of replicas: its code runs on all of them.

    Args:
        traced: what to run.
        mesh: the devices along one axis, ``AXIS``, over all processes.
        packing: which values are added together.
    """

    def __init__(self, traced: Traced, mesh: Mesh, packing: Packing = ONE_PACK) -> None:
        self._traced = traced
        self._mesh = mesh
        self._packing = packing

    def __call__(self, state: State, batch: Any, executables: Executables) -> Step:
        traced, variables = self._traced, self._traced.variables
        everywhere, own = [P()] * len(variables.changes), [P(AXIS)] * len(variables.own)
        takes = [P(AXIS) if own else P() for own in traced.takes]
        gives = [P(AXIS) if own else P() for own in traced.gives]

        def on_replica(state: State, batch: Any) -> Any:
            replicas = replicas_of_mesh(self._mesh.size, self._packing, active=self._mesh.size)
            return run_traced(traced, state, batch, replicas)

        step = jax.shard_map(
            on_replica,
            mesh=self._mesh,
            in_specs=([*everywhere, *own], ([], takes)),
            out_specs=([*everywhere, *own, *[P()] * len(variables.combined)], gives),
            check_vma=False,
        )
        shardings = [NamedSharding(self._mesh, spec) for spec in takes]

        def place(batch: Any) -> Any:
            reads, arrays = batch
            return reads, [on_devices(array, each) for array, each in zip(arrays, shardings, strict=True)]

        run = compiled(step, (state, place(batch)), (0,), executables)
        return lambda state, batch: run(state, place(batch))


def replicas_of_mesh(count: int, packing: Packing, *, active: int) -> Replicas:
    """The replicas, as code inside of ``shard_map`` sees them."""
    return Replicas(
        index=jax.lax.axis_index(AXIS),
        add=packing.adding(functools.partial(jax.lax.psum, axis_name=AXIS)),
        count=count,
        active=active,
        bytes_per_pack=packing.limit,
    )


def runs_ahead(mesh: Mesh) -> bool:
    """Whether a step may be dispatched before the one before is done.

    Several CPU devices in one process deadlock when Python runs ahead.
    """
    local = mesh.local_devices
    return len(local) == 1 or local[0].platform != "cpu"


def on_devices(array: Array, sharding: NamedSharding) -> Array:
    """This process' part of an array where a step wants it; one that is there stays."""
    if isinstance(array, jax.Array):
        there = array.sharding
        if there == sharding or there.is_equivalent_to(sharding, array.ndim):  # the first is the faster
            return array
    return by_numbers(
        lambda numbers: jax.make_array_from_process_local_data(sharding, np.asarray(numbers)), array
    )
