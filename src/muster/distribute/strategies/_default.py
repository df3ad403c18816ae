"""The default strategy: one replica, wherever JAX puts it."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from muster.distribute.engine._global_view import GlobalView
from muster.distribute.engine._replicated import AXIS
from muster.distribute.input._input_context import InputContext
from muster.distribute.replicas._replica_context import CROSS_REPLICA, ReplicaContext, current_context
from muster.distribute.strategies._strategy import Strategy, current_strategy
from muster.program import origin_of


class DefaultStrategy(Strategy):
    """What runs where no strategy was chosen: one replica on JAX's default device.

    Source: tensorflow/python/distribute/distribute_lib.py, ``_DefaultDistributionStrategy``.
    """

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Change nothing: where no strategy was chosen, code is one replica's, in a scope as outside.

        Raises:
            RuntimeError: inside of another strategy's scope.
        """
        if has_strategy():
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects: the scope of the default one was entered "
                f"inside of the scope of {current_strategy()}. Leave that scope first."
            )
        yield self

    @property
    def num_replicas_in_sync(self) -> int:
        return 1

    @property
    def input_context(self) -> InputContext:
        return InputContext()

    @property
    def sharding(self) -> jax.sharding.Sharding | None:
        return None

    @property
    def global_view(self) -> GlobalView:
        return GlobalView(Mesh(np.array(jax.devices()[:1]), (AXIS,)))


@functools.cache
def _default() -> DefaultStrategy:
    return DefaultStrategy()


def get_strategy() -> Strategy:
    """The current strategy: that of the innermost scope, else the default one, always the same object."""
    return current_strategy() or _default()


def has_strategy() -> bool:
    """Whether this is the scope of a strategy other than the default one."""
    current: Any = current_strategy()
    return current is not None and not isinstance(current, DefaultStrategy)


def in_cross_replica_context() -> bool:
    """Whether this is code for all replicas, as in a strategy's scope, rather than one replica's."""
    return current_context() is CROSS_REPLICA


def get_replica_context() -> ReplicaContext | None:
    """The replica whose code this is; None in the cross-replica context.

    Source: tensorflow/python/distribute/distribute_lib.py, ``get_replica_context``.
    """
    context = current_context()
    if context is CROSS_REPLICA:
        return None
    return context if isinstance(context, ReplicaContext) else ReplicaContext(_default(), None)


def strategy_of(variable: Any) -> Strategy:
    """The strategy in whose scope a variable was created; the default one if in none's."""
    owner = origin_of(variable).owner
    return owner if isinstance(owner, Strategy) else _default()
