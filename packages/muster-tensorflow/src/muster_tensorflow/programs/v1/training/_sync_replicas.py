"""``tf.compat.v1.train.SyncReplicasOptimizer``: an optimizer of replicas in step."""

import logging
from collections.abc import Iterable
from typing import Any

import jax

from muster import keras
from muster.distribute import get_strategy
from muster.estimator import SessionRunHook
from muster_tensorflow.programs.v1.training._own_optimizers import Optimizer

_log = logging.getLogger(__name__)


class SyncReplicasOptimizer(Optimizer):
    """Takes the steps of another optimizer, on gradients of all replicas of the strategy.

    Beside parameter servers, workers train in step where ``RunConfig(max_staleness=0)`` says so.

    Args:
        opt: The other optimizer.
        replicas_to_aggregate: How many replicas TensorFlow waits for; here it is all of the strategy's.
        total_num_replicas: Unused, likewise what follows.

    Source: tensorflow/python/training/sync_replicas_optimizer.py, ``SyncReplicasOptimizer``.
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        self._within = opt
        self._replicas_to_aggregate = replicas_to_aggregate

    def compute_gradients(
        self, loss: jax.Array, var_list: Iterable[keras.Variable] | None = None, *args: Any, **kwargs: Any
    ) -> list[tuple[jax.Array, keras.Variable]]:
        """Return the gradients of a loss, as the other optimizer does."""
        return self._within.compute_gradients(loss, var_list=var_list)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[jax.Array | None, keras.Variable]],
        global_step: keras.Variable | None = None,
        name: str | None = None,
    ) -> Any:
        """Take one step against gradients, as the other optimizer does.

        Raises:
            ValueError: There is no ``global_step``, or there are parameter servers whose workers do not train
                in step.
        """
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        strategy = get_strategy()
        if strategy.steps.shared:
            self._require_steps_together(strategy.steps.max_staleness)
            return self._within.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        count = strategy.num_replicas_in_sync
        if self._replicas_to_aggregate != count:
            _log.warning(
                "SyncReplicasOptimizer aggregates the gradients of all replicas, here %d, and not of %d.",
                count,
                self._replicas_to_aggregate,
            )
        return self._within.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _require_steps_together(self, max_staleness: int | None) -> None:
        if max_staleness != 0:
            raise ValueError(
                "SyncReplicasOptimizer: workers beside parameter servers apply gradients one after another, "
                f"and max_staleness is {max_staleness}. Set RunConfig(max_staleness=0): then they train in "
                "step, on the mean of their gradients. Or leave the optimizer out."
            )

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """Return a hook that does nothing: there are no tokens."""
        return SessionRunHook()
