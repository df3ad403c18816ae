"""Methods of strategies that TensorFlow's first programs of distribution call, beside those of today."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax

from muster import keras
from muster.distribute import DistributedDataset, DistributedIterator, InputContext, Strategy
from muster.program import TrainOp, run_updates
from muster_tensorflow.patches import change


def _unwrap(self: Strategy, value: Any) -> tuple[Any, ...]:
    """Return the values of this process' replicas: see ``Strategy.experimental_local_results``."""
    return self.experimental_local_results(value)


def _group(self: Strategy, value: Any, name: str | None = None) -> TrainOp:
    """Run what waits for it among what the replicas returned: see ``tf.group``."""
    run_updates(jax.tree.leaves(value))
    return TrainOp(name or "group")


def _experimental_run(self: Strategy, fn: Callable[..., Any], input_iterator: Any = None) -> Any:
    """Call a function on each replica, with the next elements of an iterator if there is one."""
    return self.run(fn) if input_iterator is None else self.run(fn, args=(next(input_iterator),))


def _make_dataset_iterator(self: Strategy, dataset: Any) -> DistributedIterator:
    """Return an iterator over a dataset whose batches the replicas share."""
    return iter(self.experimental_distribute_dataset(dataset))


def _make_input_fn_iterator(
    self: Strategy, input_fn: Callable[[InputContext], Any], replication_mode: object = None
) -> DistributedIterator:
    """Return an iterator over the datasets that a function makes for each worker.

    Args:
        self: The strategy.
        input_fn: Called with this worker's context; returns a dataset of batches for one replica.
        replication_mode: Unused: a pipeline for each worker is the only mode.
    """
    return iter(self.distribute_datasets_from_function(input_fn))


def _configure(
    self: Strategy,
    session_config: object = None,
    cluster_spec: object = None,
    task_type: object = None,
    task_id: object = None,
) -> None:
    """Do nothing: ``TF_CONFIG`` and the strategy's arguments say all."""


def _update_config_proto(self: Strategy, config_proto: Any) -> Any:
    """Return the configuration of a session, which there is none of."""
    return config_proto


def _colocate_vars_with(
    self: Any, colocate_with_variable: keras.Variable
) -> contextlib.AbstractContextManager[None]:
    """Create variables where another one is: see ``StrategyExtended.colocate_vars_with``."""
    where: contextlib.AbstractContextManager[None] = self.extended.colocate_vars_with(colocate_with_variable)
    return where


def _initialize(self: DistributedIterator) -> list[Any]:
    """Do nothing: an iterator begins by itself."""
    return []


def _reduce(self: DistributedDataset, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Return what a function makes of a state and each batch in turn.

    Source: tensorflow/python/distribute/input_lib.py, ``_IterableInput.reduce``.
    """
    state = initial_state
    for batch in self:
        state = reduce_func(state, batch)
    return state


def patch() -> None:
    """Give strategies, distributed datasets and their iterators the methods."""
    change(Strategy, "unwrap", _unwrap)
    change(Strategy, "group", _group)
    change(Strategy, "experimental_run", _experimental_run)
    change(Strategy, "make_dataset_iterator", _make_dataset_iterator)
    change(Strategy, "make_input_fn_iterator", _make_input_fn_iterator)
    change(Strategy, "configure", _configure)
    change(Strategy, "update_config_proto", _update_config_proto)
    change(Strategy, "colocate_vars_with", _colocate_vars_with)
    change(DistributedIterator, "initialize", _initialize)
    change(DistributedDataset, "reduce", _reduce)
