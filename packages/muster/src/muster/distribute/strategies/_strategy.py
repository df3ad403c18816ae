"""Strategy: TensorFlow's interface to the workers, the placement and the engine of a job."""

import contextlib
import dataclasses
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax

from muster import cpu, lifecycle
from muster._compilation_cache import keep_compiled
from muster._errors import GradientError
from muster._frontend import frontend
from muster._keras import keras
from muster.cluster import ClusterResolver
from muster.data import INFINITE_CARDINALITY, Dataset, dataset_line
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._traced import Engine
from muster.distribute.functions import _traced_calls as traced_calls
from muster.distribute.functions._function import Function
from muster.distribute.input._batch_sources import GlobalBatches, ReplicaBatches, datasets_from_function
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._input_options import InputOptions, InputReplicationMode
from muster.distribute.input._step_source import StepSource
from muster.distribute.replicas._replica_context import (
    CROSS_REPLICA,
    Context,
    ReduceOp,
    ReplicaContext,
    entered,
)
from muster.distribute.replicas._values import PerReplica, ValueContext, is_leaf, stacked
from muster.distribute.workers._workers import GiveState, HostArray, SingleWorker, Workers
from muster.program.gradients import is_tape_open
from muster.program.variables import ByIdentity, current_scope, owner_of_new, variables_owned_by


class Strategy:
    """Distributes training: chooses the workers, where variables live, and how steps are compiled.

    Estimators, ``fit`` and custom loops all trace code and hand it to the strategy's engine.

    Args:
        placement: Where variables live.
        engine: Compiles steps for the replicas.
        workers: The processes; None for this process only.
        local_replicas: The number of replicas of each process.
        steps: Says which steps a worker may make; None for one on each of its batches.
        datasets: The class of distributed datasets.

    Attributes:
        placement: Where variables live.
        engine: Compiles steps for the replicas.
        workers: The processes.
        steps: Says which steps a worker may make, for Estimators.

    Source: tensorflow/python/distribute/distribute_lib.py, ``Strategy``.
    """

    def __init__(
        self,
        placement: Placement,
        engine: Engine,
        workers: Workers | None = None,
        local_replicas: int = 1,
        *,
        steps: StepSource | None = None,
        datasets: type[DistributedDataset] = DistributedDataset,
    ) -> None:
        lifecycle.install()
        cpu.share_heap()  # before there are threads
        self.placement = placement
        self.engine = engine
        self.workers = workers or SingleWorker()
        self._local_replicas = local_replicas
        self.steps = steps or StepSource()
        self._datasets = datasets

    @property
    def local_replicas(self) -> int:
        """The number of replicas of this process."""
        return self.workers.share_of(self._local_replicas).count

    @property
    def values_here(self) -> int:
        """The number of replicas whose values a loop has in this process: all, where workers come and go."""
        return self.workers.in_loops.share_of(self._local_replicas).count

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas that take part in a step, over all workers."""
        return self.workers.share_of(self._local_replicas).total

    @property
    def input_context(self) -> InputContext:
        """The share of the input that this process reads; of virtual replicas, that of its first one."""
        if (share := self.workers.share) is not None:
            return InputContext(share.total, share.first, share.total)
        return InputContext(self.workers.size, self.workers.rank, self.num_replicas_in_sync)

    @property
    def cluster_resolver(self) -> ClusterResolver | None:
        """The resolver that names the tasks of the job; None if this process is the only one."""
        return None

    @contextlib.contextmanager
    def scope(self) -> Iterator["Strategy"]:
        """Make this the current strategy: what is built inside belongs to it.

        Raises:
            RuntimeError: Inside of another strategy's scope, or of ``run``.
        """
        traced_calls.require_cross_replica()
        keep_compiled(None)
        with self.entered(CROSS_REPLICA):
            yield self

    @contextlib.contextmanager
    def entered(self, context: Context) -> Iterator[None]:
        """Run code as this strategy's, in a replica context or in the cross-replica one.

        Raises:
            RuntimeError: Inside of another strategy's scope.
        """
        current = current_strategy()
        if current is not None and current is not self:
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects: the scope of "
                f"{self} was entered inside of the scope of {current}. Leave that scope first."
            )
        with variables_owned_by(self), entered(context):
            yield

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Call a function on each replica.

        Args:
            fn: The function; it is traced, as the code of a ``muster.function`` is.
            args: Positional arguments, a list or tuple; a replica takes its value of a ``PerReplica``.
            kwargs: Keyword arguments, treated alike.
            options: Accepted for TensorFlow's programs.

        Returns:
            The results of the function; with more than one replica, arrays are ``PerReplica``.

        Raises:
            RuntimeError: It is called inside of ``run``.
            TypeError: ``fn`` is no function, or an argument is a dataset, or an iterator for more than one
                replica.
            ValueError: ``args`` is not a list or tuple.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.run``.

        Example:
            ```python
            strategy = muster.distribute.get_strategy()
            assert float(strategy.run(lambda x: x + 1, args=(np.float32(2),))) == 3
            ```
        """
        if not isinstance(args, list | tuple):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}: {args!r}.")
        if not callable(fn):
            raise TypeError(f"`run` needs a function, got {fn!r}.")
        traced_calls.require_cross_replica()
        if current_scope() is None:
            if is_tape_open():
                raise GradientError(
                    "strategy.run was called inside of a GradientTape in eager code, which cannot see what "
                    "replicas compute. Open the tape in the function that strategy.run calls, and call "
                    "tape.gradient and optimizer.apply_gradients there."
                )
            return _run_outermost(self, fn, tuple(args), dict(kwargs or {}))
        return traced_calls.run(self, fn, tuple(args), dict(kwargs or {}))

    experimental_run_v2 = run  # its name until TensorFlow 2.2

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | tuple[int, ...] | None = None) -> Any:
        """Reduce values over the replicas, and along axes if any are given.

        Args:
            reduce_op: ``SUM`` or ``MEAN``.
            value: ``PerReplica`` values, or plain ones, in a nested structure.
            axis: The axes along which to reduce each replica's value too; the mean is then over all elements.

        Returns:
            Arrays in the same structure, equal on all replicas.

        Raises:
            RuntimeError: It is called inside of ``run``: see ``ReplicaContext.all_reduce``.
            TypeError: The value is a dataset, or an iterator for more than one replica.
            ValueError: The value is the same on all replicas, and the operation is ``SUM``.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.reduce``.

        Example:
            ```python
            strategy = muster.distribute.get_strategy()
            losses = strategy.run(lambda: np.float32(2))
            assert float(strategy.reduce("MEAN", losses, axis=None)) == 2
            ```
        """
        traced_calls.require_cross_replica()
        op = ReduceOp.of(reduce_op)
        if axis is not None and not isinstance(axis, int | tuple):
            raise TypeError(f"`axis` must be None, an integer or a tuple of them, got {axis!r}.")
        return _REDUCE(self, op, value, axis)

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenate the values of all replicas along an axis, in the order of the replicas.

        Args:
            value: ``PerReplica`` values of rank one at least, or plain ones, in a nested structure. Those of
                two replicas may differ in their size along the axis.
            axis: The axis, from 0.

        Returns:
            Arrays in the same structure, equal on all replicas; plain values as they are.

        Raises:
            RuntimeError: It is called inside of ``run``: see ``ReplicaContext.all_gather``.
            TypeError: The value is a dataset, or an iterator for more than one replica; or it is text.
            ValueError: A value has no such axis, or the values of two replicas differ in another size.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.gather``.
        """
        for leaf in jax.tree.leaves(value, is_leaf=is_leaf):
            if isinstance(leaf, PerReplica) and getattr(leaf.data.dtype, "kind", "f") in "SUO":
                raise TypeError(
                    "gather joins numbers, and some of these values are text: take those of this process by "
                    "strategy.experimental_local_results(value)."
                )
        return _GATHER(self, value, axis)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of this process' replicas; in an elastic job those of all replicas.

        Args:
            value: ``PerReplica``, a variable, or a nested structure of them; or any other value.

        Returns:
            A tuple with the value of each replica, in the order of the replicas; only one if the value is
            not per replica.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.experimental_local_results``.
        """
        if isinstance(value, keras.Variable):
            value = _VALUES(self, value)
        if isinstance(value, PerReplica):
            return value.values if current_scope() is None else traced_calls.local_results(self, value)
        if not isinstance(value, dict | list | tuple):
            return (value,)
        leaves, structure = jax.tree.flatten(value, is_leaf=is_leaf)
        local = self.values_here
        results = [self.experimental_local_results(leaf) for leaf in leaves]
        by_leaf = [result if len(result) == local else result * local for result in results]
        return tuple(jax.tree.unflatten(structure, leaves) for leaves in zip(*by_leaf, strict=True))

    def experimental_distribute_dataset(
        self, dataset: Dataset, options: InputOptions | None = None
    ) -> DistributedDataset:
        """Divide the batches of a dataset among the replicas.

        Args:
            dataset: Global batches, the same on all workers. Its AutoShardPolicy says what each worker reads.
            options: See InputOptions.

        Raises:
            NotImplementedError: The options ask for a dataset for each replica.
            TypeError: ``dataset`` is not a Dataset.
            ValueError: The options contradict each other. Iterating raises it if elements are not batches.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.experimental_distribute_dataset``.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"`dataset` must be a Dataset, got {type(dataset).__name__}: {dataset!r}."
                f"{dataset_line(dataset)}"
            )
        if options is not None:
            options.check_for_dataset()
        endless = dataset.cardinality() == INFINITE_CARDINALITY
        source = GlobalBatches(self.workers.in_loops, self.values_here, dataset)
        return self._datasets(source, endless=endless)

    def experimental_make_numpy_dataset(self, numpy_input: Any) -> Dataset:
        """Make a dataset of the rows of arrays.

        Args:
            numpy_input: A nested structure of arrays of shape (n, ...).

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyV1.experimental_make_numpy_dataset``.
        """
        return Dataset.from_tensor_slices(numpy_input)

    make_experimental_numpy_dataset = experimental_make_numpy_dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> DistributedDataset:
        """Distribute the datasets that a function makes: each replica takes batches of its worker's dataset.

        Args:
            dataset_fn: Called with this worker's InputContext; returns a dataset of batches for one replica.
            options: With the mode PER_REPLICA, the function is called for each replica of this worker.

        Raises:
            TypeError: The function does not return a Dataset.
            ValueError: The options contradict each other.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.distribute_datasets_from_function``.
        """
        context, workers = self.input_context, self.workers.in_loops
        if workers is not self.workers:  # each has the data of all replicas, and each of those its own
            context, options = InputContext(1, 0, self.num_replicas_in_sync), _per_replica(options)
        datasets = datasets_from_function(context, self.values_here, dataset_fn, options)
        endless = any(each.cardinality() == INFINITE_CARDINALITY for each in datasets)
        source = ReplicaBatches(workers, self.values_here, datasets)
        return self._datasets(source, endless=endless)

    # Its name until TensorFlow 2.3.
    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """Make a value for each replica.

        Args:
            value_fn: Called with the ValueContext of each replica of this process; returns arrays or numbers
                in a nested structure, of the same dtypes and ranks for all replicas.

        Returns:
            ``PerReplica`` values in the same structure; with a single replica, what the function returned.

        Raises:
            ValueError: The values of two replicas differ in dtype or rank.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.experimental_distribute_values_from_function``.
        """
        workers = self.workers.in_loops
        share = workers.share_of(self._local_replicas)
        local, count, first = share.count, share.total, share.first
        values = [value_fn(ValueContext(first + i, count)) for i in range(local)]
        if count == 1:
            return values[0]
        told = workers.all_gather_object
        return jax.tree.map(lambda *each: stacked(list(each), told, workers.rank), *values)

    def check_variable(self, variable: keras.Variable) -> None:
        """Check a variable that was created in this strategy's scope.

        Raises:
            ValueError: Replicas could not agree on its values.
        """
        if self.num_replicas_in_sync > 1:
            traced_calls.check_agreement(variable)

    def __str__(self) -> str:
        return type(self).__name__


def _per_replica(options: InputOptions | None) -> InputOptions:
    """Return options by which each replica has a dataset of its own."""
    mode = InputReplicationMode.PER_REPLICA
    if options is None:
        return InputOptions(experimental_replication_mode=mode)
    return dataclasses.replace(options, experimental_replication_mode=mode)


def join_loop(
    strategy: Strategy,
    give: GiveState,
    take: Callable[[Any, Sequence[HostArray]], None],
    variables: Callable[[], Iterable[Any]],
) -> bool:
    """Let workers that come join the loop of a program; take the others' state if this one is such a worker.

    Args:
        strategy: The strategy of the loop.
        give: Returns the state from which the program goes on, as JSON and arrays.
        take: Sets what ``give`` has returned on another worker.
        variables: Returns the variables that then have the others' values.

    Returns:
        Whether this worker has joined others: there is nothing else to restore.
    """
    given = strategy.workers.join_loop(give)
    if given is None:
        return False
    take(*given)
    strategy.placement.know(variables())
    return True


# The compiled `run` of each object that was run outside of a function, by strategy and method; None for code
# that runs uncompiled.
_RUNS: ByIdentity[dict[Any, Function | None]] = ByIdentity()


def _run_outermost(
    strategy: Strategy, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function on each replica, compiled if that is possible."""
    run = _run_of(strategy, fn)
    if run is not None:
        uncompiled_after = frontend().uncompiled_after if strategy.num_replicas_in_sync == 1 else ()
        run.mends = not uncompiled_after
        try:
            return run(args, kwargs)
        except uncompiled_after:
            target, method = (fn.__self__, fn.__func__) if inspect.ismethod(fn) else (fn, None)
            _RUNS.get(target, {})[strategy, method] = None
    with strategy.entered(ReplicaContext(strategy, None)):
        return fn(*args, **kwargs)


def _run_of(strategy: Strategy, fn: Callable[..., Any]) -> Function | None:
    """Return the compiled function that runs ``fn`` on each replica, kept as long as ``fn`` exists.

    None if ``fn`` runs uncompiled.

    The compiled function references the variables that it uses, so only weak references to ``fn`` are kept.
    """
    target, method = (fn.__self__, fn.__func__) if inspect.ismethod(fn) else (fn, None)
    runs = _RUNS.get(target, {})
    if (strategy, method) not in runs:
        code: Callable[[], Any] = weakref.WeakMethod(fn) if method else weakref.ref(fn)

        runs[strategy, method] = Function(
            lambda args, kwargs: traced_calls.run(strategy, code(), args, kwargs)
        )
        _RUNS[target] = runs
    return runs[strategy, method]


_VALUES = Function(lambda strategy, variable: strategy.run(lambda: variable.value))
_REDUCE = Function(traced_calls.reduce)
_GATHER = Function(traced_calls.gather)


def current_strategy() -> Strategy | None:
    """Return the strategy of the innermost scope, or None: it owns the variables that are created there."""
    owner: Any = owner_of_new()
    current = getattr(owner, "strategy", owner)
    return current if isinstance(current, Strategy) else None
