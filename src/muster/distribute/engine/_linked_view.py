"""The global view of workers with one CPU device each, whose rows' sums meet over their own connections."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from muster import cpu
from muster.distribute.engine._compiled import CompiledStep, Executables, State, Step, compiled
from muster.distribute.engine._exchanged import ExchangedStep
from muster.distribute.engine._global_view import Function, GlobalView
from muster.distribute.input._shared_batches import Whole
from muster.distribute.workers._link import Link
from muster.program import IndivisibleError, Replicas, divided

Array = Any

_log = logging.getLogger(__name__)


class LinkedView(GlobalView):
    """Each worker computes for its own rows, and state is its own; what the whole batch makes is exchanged.

    That takes an exchange for all gradients, where XLA adds them one by one. A step that does with the batch
    what is not known here is divided by XLA after all.

    Args:
        mesh: the devices of all workers.
        link: connects the workers.
        bytes_per_pack: values are added in packs of about this size; 0 for a single one.
    """

    def __init__(self, mesh: Mesh, link: Link, bytes_per_pack: int) -> None:
        super().__init__(mesh)
        self._link = link
        self._bytes_per_pack = bytes_per_pack

    def placed(self, value: Array) -> Array:
        return _own(value)

    def compile(self, function: Function, executables: Executables) -> Step:
        make = functools.partial(self._make, function, super().compile(function, executables))
        return CompiledStep(make, executables)

    def _make(
        self, function: Function, by_xla: Step, state: State, batch: Any, executables: Executables
    ) -> Step:
        cpu.prepare()
        own = jax.tree.map(_own, state)
        if isinstance(batch, Whole):
            return _on_own_state(
                compiled(functools.partial(_whole, function), (own, batch), (0,), executables)
            )
        exchanged = ExchangedStep(functools.partial(_divided, function), self._link, self._bytes_per_pack)
        refused = ""
        try:
            step = _on_own_state(exchanged(own, batch, executables))
        except IndivisibleError as exc:
            refused = str(exc)
        self._link.require_equal("steps", [refused])
        if not refused:
            return step
        _log.debug("XLA divides a step among the workers: %s.", refused)
        return lambda state, batch: by_xla(jax.tree.map(super(LinkedView, self).placed, state), batch)


def _own(value: Array) -> Array:
    """This process' copy of a value, of which others may have theirs."""
    return value if value.is_fully_addressable else value.addressable_data(0)


def _on_own_state(step: Step) -> Step:
    return lambda state, batch: step(jax.tree.map(_own, state), batch)


def _whole(function: Callable[..., Any], state: State, batch: Whole) -> Any:
    return jax.tree.map(jnp.asarray, function(state, batch.batch))


def _divided(function: Function, state: State, batch: Any, replicas: Replicas) -> Any:
    def arrays(state: State, batch: Any) -> Any:
        return jax.tree.map(jnp.asarray, function(state, batch))

    return divided(arrays, state, batch, replicas)
