"""The default strategy: one replica on JAX's default device."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.replicas._replica_context import (
    CrossReplicaContext,
    ReplicaContext,
    current_context,
    entered,
)
from muster.distribute.strategies._strategy import Strategy, current_strategy
from muster.program.variables import origin_of


class DefaultStrategy(Strategy):
    """Runs one replica on JAX's default device, if no other strategy was chosen.

    Source: tensorflow/python/distribute/distribute_lib.py, ``_DefaultDistributionStrategy``.
    """

    def __init__(self) -> None:
        super().__init__(Placement(None), DeviceEngine())

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Change nothing: code is in a replica context inside of the default scope as outside of it.

        Raises:
            RuntimeError: Inside of another strategy's scope.
        """
        if has_strategy():
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects: the scope of the default one was entered "
                f"inside of the scope of {get_strategy()}. Leave that scope first."
            )
        yield self


@functools.cache
def _default() -> DefaultStrategy:
    return DefaultStrategy()


def get_strategy() -> Strategy:
    """Return the strategy of the innermost scope or replica, else the default one, which is one object.

    In a ``model_fn`` it is the strategy of the Estimator's config that runs the step.

    Source: tensorflow/python/distribute/distribute_lib.py, ``get_strategy``.

    Example:
        ```python
        strategy = muster.distribute.get_strategy()
        batch_size = 64 * strategy.num_replicas_in_sync
        ```
    """
    if (strategy := current_strategy()) is not None:
        return strategy
    context = current_context()
    strategy_of_replica: Any = context.strategy if isinstance(context, ReplicaContext) else None
    return strategy_of_replica or _default()


def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Enter a strategy's scope until the next call, in this thread: for programs without a ``with``.

    Args:
        strategy: The strategy; None for none.

    Raises:
        RuntimeError: Inside of a scope.

    Source: tensorflow/python/distribute/distribute_lib.py, ``experimental_set_strategy``.
    """
    context = current_context()
    if context is not None:
        if isinstance(context, ReplicaContext) or context.left_by is None:
            raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
        context.left_by.close()
    if strategy is not None:
        stack = contextlib.ExitStack()
        stack.enter_context(strategy.scope())
        if has_strategy():  # the default strategy's scope changes nothing
            stack.enter_context(entered(CrossReplicaContext(left_by=stack)))


def has_strategy() -> bool:
    """Return whether code runs in the scope, or as a replica, of a strategy other than the default one."""
    return not isinstance(get_strategy(), DefaultStrategy)


def in_cross_replica_context() -> bool:
    """Return whether code runs for all replicas, as in a strategy's scope, rather than for one."""
    return isinstance(current_context(), CrossReplicaContext)


def get_replica_context() -> ReplicaContext | None:
    """Return the context of the replica that runs; None in the cross-replica context.

    Source: tensorflow/python/distribute/distribute_lib.py, ``get_replica_context``.
    """
    context = current_context()
    if isinstance(context, CrossReplicaContext):
        return None
    return context if isinstance(context, ReplicaContext) else ReplicaContext(_default(), None)


def strategy_of(variable: Any) -> Strategy:
    """Return the strategy in whose scope a variable was created, else the default one."""
    owner = origin_of(variable).owner
    return owner if isinstance(owner, Strategy) else _default()
