"""`ParameterServerStrategyV1`: an Estimator's workers train variables on parameter servers."""

import contextlib
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.cluster import ClusterResolver, TaskType, resolver_of_environment
from muster.distribute.strategies._central_storage import CentralStorageStrategy
from muster.distribute.strategies._strategy import Strategy

Partitioner = Callable[[tuple[int, ...], Any], Sequence[int]]


class ParameterServerStrategyV1(CentralStorageStrategy):
    """Lets ``train_and_evaluate`` keep variables on the parameter servers of a cluster.

    With ``RunConfig(train_distribute=ParameterServerStrategyV1())`` the tasks train as they do with parameter
    servers in ``TF_CONFIG`` and no strategy, with these settings. Without parameter servers, in one process,
    it is `CentralStorageStrategy`.

    Args:
        cluster_resolver: Names the tasks of the job; None finds out: see `find_environment`.
        variable_partitioner: Says, from a variable's shape and dtype, how many shards its rows are divided
            into, such as ``FixedShardsPartitioner(2)``; None leaves all variables whole.
        max_staleness: How many steps a worker may be ahead of the slowest one, as in ``RunConfig``.

    Raises:
        ClusterError: ``TF_CONFIG`` is wrong.
        TypeError: An argument has the wrong type.
        ValueError: ``max_staleness`` is negative.

    Source: tensorflow/python/distribute/parameter_server_strategy.py, ``ParameterServerStrategyV1``.
    It has ``cluster_resolver`` only: there a partitioner is given to each variable.
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        *,
        variable_partitioner: Partitioner | None = None,
        max_staleness: int | None = None,
    ) -> None:
        check_settings(cluster_resolver, variable_partitioner, max_staleness)
        super().__init__()
        self._resolver = cluster_resolver or resolver_of_environment()
        self.variable_partitioner = variable_partitioner
        self.max_staleness = max_staleness

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Make this the current strategy, in one process or an evaluator.

        Raises:
            NotImplementedError: This task could train with parameter servers: only Estimators do.
        """
        jobs = self._resolver.cluster_spec().jobs
        if TaskType.PS in jobs and self._resolver.task_type != TaskType.EVALUATOR:
            raise NotImplementedError(
                "With the parameter servers of a cluster this strategy currently only works with "
                "train_and_evaluate of an Estimator: give it RunConfig(train_distribute=...). Other programs "
                "may use MultiWorkerMirroredStrategy, in a cluster without the job 'ps'."
            )
        with super().scope():
            yield self


def check_settings(cluster_resolver: object, variable_partitioner: object, max_staleness: object) -> None:
    """Check the arguments of a strategy with parameter servers.

    Raises:
        TypeError: One has the wrong type.
        ValueError: ``max_staleness`` is negative.
    """
    if not isinstance(cluster_resolver, ClusterResolver | None):
        raise TypeError(
            f"cluster_resolver must be a ClusterResolver, got {cluster_resolver!r}. None reads TF_CONFIG."
        )
    if variable_partitioner is not None and (
        isinstance(variable_partitioner, type) or not callable(variable_partitioner)
    ):
        raise TypeError(
            "variable_partitioner must be a function of a shape and a dtype, such as "
            f"FixedShardsPartitioner(2), got {variable_partitioner!r}."
        )
    check_max_staleness(max_staleness)


def check_max_staleness(value: object) -> None:
    """Check how many steps a worker may be ahead of the slowest one.

    Raises:
        TypeError: It is neither an integer nor None.
        ValueError: It is negative.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"max_staleness must be an integer or None, given: {value!r}.")
    if value < 0:
        raise ValueError(
            f"max_staleness should be >= 0, given: {value}. None lets workers train without waiting."
        )
