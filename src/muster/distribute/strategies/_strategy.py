"""The Strategy: the one place that knows on which devices a step runs."""

import contextlib
import functools
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import jax

from muster._keras import keras
from muster.cluster import ClusterResolver, TaskState
from muster.data import INFINITE_CARDINALITY, Dataset
from muster.distribute.engine._compiled import CompiledStep, Executables, Step, compiled, in_turn
from muster.distribute.engine._global_view import GlobalView
from muster.distribute.engine._placement import VariablePlacement
from muster.distribute.functions._function import Function, Traced, alone
from muster.distribute.functions._traced_calls import (
    check_agreement,
    gather_traced,
    local_traced,
    reduce_traced,
    require_cross_replica,
    require_values,
    run_traced_code,
)
from muster.distribute.input._distributed_dataset import (
    DistributedDataset,
    GlobalBatches,
    ReplicaBatches,
    datasets_from_function,
)
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._input_options import InputOptions
from muster.distribute.input._shared_batches import Signals
from muster.distribute.replicas._replica_context import (
    CROSS_REPLICA,
    ReduceOp,
    ReplicaContext,
    current_context,
    entered,
)
from muster.distribute.replicas._values import PerReplica, ValueContext, is_leaf, map_values, stacked
from muster.program import ByIdentity, Program, current_scope, functions_run_eagerly, owning

Array = Any
State = dict[str, Array]

# How long, in seconds, tasks may take to come up: two hours, as in TensorFlow.
MEET_SECS = 7200.0

_SCOPE: ContextVar["Strategy | None"] = ContextVar("muster_strategy", default=None)


class Strategy(ABC):
    """Decides three things: where state lives, how gradients meet, how input is split.

    Estimators, ``fit`` and custom loops all make a ``Program`` and hand it to the same strategy object.

    Source: tensorflow/python/distribute/distribute_lib.py, ``Strategy``; there is no ``extended`` here.
    """

    @property
    def extended(self) -> NoReturn:
        """Of TensorFlow's strategies; there is nothing of the kind."""
        raise AttributeError(
            "A strategy has no `extended`: run, reduce, gather, the properties of the strategy and "
            "ReplicaContext do what programs use of it."
        )

    @functools.cached_property
    def placement(self) -> VariablePlacement:
        """Where the values of variables are."""
        return VariablePlacement(self)

    @property
    @abstractmethod
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all workers."""

    @property
    @abstractmethod
    def input_context(self) -> InputContext:
        """The share of the input that this process reads."""

    @property
    @abstractmethod
    def sharding(self) -> jax.sharding.Sharding | None:
        """Where the state lives; None leaves it to JAX, which takes its default device."""

    @property
    def cluster_resolver(self) -> ClusterResolver | None:
        """Says who is in the job; None where this process is all of it."""
        return None

    @property
    def own_sharding(self) -> jax.sharding.Sharding | None:
        """Where values live that each replica has its own of, along their first axis."""
        return self.sharding

    @contextlib.contextmanager
    def scope(self) -> Iterator["Strategy"]:
        """Make this the current strategy: what is built inside belongs to it.

        Raises:
            RuntimeError: inside of another strategy's scope, or of ``run``.
        """
        require_cross_replica()
        with self.entered(CROSS_REPLICA):
            yield self

    @contextlib.contextmanager
    def entered(self, context: Any) -> Iterator[None]:
        """Let code run as this strategy's, in a replica context or in the cross-replica one."""
        current = current_strategy()
        if current is not None and current is not self:
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects: the scope of "
                f"{self} was entered inside of the scope of {current}. Leave that scope first."
            )
        token = _SCOPE.set(self)
        try:
            with owning(self), entered(context):
                yield
        finally:
            _SCOPE.reset(token)

    def place(self, state: State) -> State:
        """Put the values of variables where they live under this strategy, once its step was made.

        Args:
            state: path -> array, on the host or on any device, global.

        Returns:
            The same values as arrays that a step may donate.
        """
        placed: State = jax.device_put(state, self.sharding)
        return placed

    def compile(self, program: Program[Any], executables: Executables) -> Step:
        """Make a program's step run on this strategy's devices. Workers check here that they run the same.

        Args:
            program: what to run.
            executables: what was compiled before, to be used again and added to.

        Returns:
            ``(state, batch) -> (state, outputs)``, which donates the state, and takes ``Several`` batches too
            unless functions run eagerly.
        """
        if functions_run_eagerly():
            return program.step_eagerly

        def make(state: State, batch: Any, executables: Executables) -> Step:
            step = functools.partial(in_turn, program.step)
            return compiled(step, (state, batch), (0,), executables)

        return CompiledStep(make, executables)

    @contextlib.contextmanager
    def share_batches(
        self, batches: Iterator[Any], first: Any, signals: Signals | None = None
    ) -> Iterator[Iterator[Any]]:
        """Make the batches of this worker those of its steps, of which all workers take as many.

        Args:
            batches: of this worker, each for one replica.
            first: the first of them.
            signals: what interrupts this worker; then workers that are interrupted end after the same step.

        Yields:
            The batches to step on. If a worker leaves the block without an error, all of them run out.
        """
        yield batches

    @contextlib.contextmanager
    def together(self, start_secs: float = MEET_SECS) -> Iterator[None]:
        """While the workers of a job depend on each other: an error in one ends all.

        Args:
            start_secs: how long a worker may keep the others waiting before it reports that it trains, in
                seconds.
        """
        yield

    @contextlib.contextmanager
    def doing(self, state: TaskState) -> Iterator[None]:
        """While this task does what the others are told of: for one that evaluates or saves they wait.

        Args:
            state: what it does.
        """
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
            fn: the function; it is traced, as the code of a ``muster.function`` is.
            args: a list or tuple; of values that each replica has its own of, it gets its own.
            kwargs: likewise.
            options: accepted for TensorFlow's programs.

        Returns:
            What it returns, arrays as ``PerReplica`` where there are several replicas.

        Raises:
            RuntimeError: This is inside of ``run`` already.
            TypeError: It is given a dataset; or an iterator, and there are several replicas.
            ValueError: ``args`` is no list or tuple.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.run``.
        """
        if not isinstance(args, list | tuple):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}: {args!r}.")
        require_cross_replica()
        if current_scope() is None:
            return _run_of(self, fn)(tuple(args), dict(kwargs or {}))
        require_values("run", (args, kwargs), self.num_replicas_in_sync)
        return run_traced_code(self, fn, tuple(args), dict(kwargs or {}))

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | tuple[int, ...] | None = None) -> Any:
        """Reduce values over the replicas, and along axes of their own if any are given.

        Args:
            reduce_op: ``SUM`` or ``MEAN``.
            value: ``PerReplica`` values, or plain ones, in a nested structure.
            axis: along which to reduce each replica's value as well; the mean is by the count of elements.

        Returns:
            Arrays in the same structure, equal everywhere.

        Raises:
            RuntimeError: This is inside of ``run``: see ``ReplicaContext.all_reduce``.
            TypeError: It is given a dataset; or an iterator, and there are several replicas.
            ValueError: The sum is asked of a value that replicas do not have their own of.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.reduce``.
        """
        require_cross_replica()
        op = ReduceOp.of(reduce_op)
        if axis is not None and not isinstance(axis, int | tuple):
            raise TypeError(f"`axis` must be None, an integer or a tuple of them, got {axis!r}.")
        if current_scope() is None:
            return _REDUCE(self, op, value, axis)
        require_values("reduce", value, self.num_replicas_in_sync)
        return map_values(lambda leaf: reduce_traced(self, op, leaf, axis), value)

    def gather(self, value: Any, axis: int) -> Any:
        """The values of all replicas, one after the other along an axis.

        Args:
            value: ``PerReplica`` values of rank one at least, or plain ones, in a nested structure.
            axis: along which to concatenate them.

        Raises:
            RuntimeError: This is inside of ``run``: see ``ReplicaContext.all_gather``.
            TypeError: It is given a dataset; or an iterator, and there are several replicas.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.gather``.
        """
        if isinstance(current_context(), ReplicaContext):
            raise RuntimeError(
                "tf.distribute.Strategy.gather method requires cross-replica context, use "
                "get_replica_context().all_gather() instead."
            )
        if current_scope() is None:
            return _GATHER(self, value, axis)
        require_values("gather", value, self.num_replicas_in_sync)
        return map_values(lambda leaf: gather_traced(self, leaf, axis), value)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of this process' replicas.

        Args:
            value: ``PerReplica``, a variable, or a nested structure of them; any other value is the only one.

        Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyBase.experimental_local_results``.
        """
        if isinstance(value, keras.Variable):
            value = _VALUES(self, value)
        if isinstance(value, PerReplica):
            return value.values if current_scope() is None else local_traced(self, value)
        if not isinstance(value, dict | list | tuple):
            return (value,)
        leaves, structure = jax.tree.flatten(value, is_leaf=is_leaf)
        local = self.local_replicas
        results = [self.experimental_local_results(leaf) for leaf in leaves]
        each = [result if len(result) == local else result * local for result in results]
        return tuple(jax.tree.unflatten(structure, own) for own in zip(*each, strict=True))

    def experimental_distribute_dataset(
        self, dataset: Dataset, options: InputOptions | None = None
    ) -> DistributedDataset:
        """Divide the batches of a dataset among the replicas.

        Args:
            dataset: of global batches; the same on all workers. Its AutoShardPolicy says what each reads.
            options: see InputOptions.

        Raises:
            NotImplementedError: The options ask for a dataset for each replica.
            ValueError: The options do not go together; or, when it is iterated over, its elements are no
                batches.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.experimental_distribute_dataset``.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"A Dataset is to be distributed, got {type(dataset).__name__}: {dataset!r}.")
        if options is not None:
            options.check_for_dataset()
        endless = dataset.cardinality() == INFINITE_CARDINALITY
        return DistributedDataset(GlobalBatches(self, dataset), endless=endless)

    def experimental_make_numpy_dataset(self, numpy_input: Any) -> Dataset:
        """Make a dataset of the rows of arrays.

        Args:
            numpy_input: a nested structure of arrays of shape (n, ...).

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyV1.experimental_make_numpy_dataset``.
        """
        return Dataset.from_tensor_slices(numpy_input)

    make_experimental_numpy_dataset = experimental_make_numpy_dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> DistributedDataset:
        """Let each replica take batches of what a function returns for its worker.

        Args:
            dataset_fn: called with this worker's InputContext; returns a dataset of batches for one replica.
            options: with the mode PER_REPLICA, the function is called for each replica of this worker.

        Raises:
            TypeError: It returns no Dataset.
            ValueError: The options do not go together.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.distribute_datasets_from_function``.
        """
        datasets = datasets_from_function(self, dataset_fn, options)
        endless = any(each.cardinality() == INFINITE_CARDINALITY for each in datasets)
        return DistributedDataset(ReplicaBatches(self, datasets), endless=endless)

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """Values that each replica has its own of.

        Args:
            value_fn: called with the ValueContext of each replica of this process; returns arrays or numbers
                of the same shapes in a nested structure.

        Source: tensorflow/python/distribute/distribute_lib.py,
            ``StrategyBase.experimental_distribute_values_from_function``.
        """
        local, count = self.local_replicas, self.num_replicas_in_sync
        first = self.input_context.input_pipeline_id * local
        values = [value_fn(ValueContext(first + i, count)) for i in range(local)]
        return values[0] if count == 1 else jax.tree.map(lambda *each: stacked(list(each)), *values)

    @property
    def local_replicas(self) -> int:
        """How many of the replicas this process has."""
        return self.num_replicas_in_sync // self.input_context.num_input_pipelines

    def compile_function(self, traced: Traced, executables: Executables) -> Step:
        """Make a traced function run on this strategy's devices.

        Args:
            traced: what to run.
            executables: as for ``compile``.

        Returns:
            The step, which donates the state, as `Traced` says.
        """
        return alone(traced)

    @property
    @abstractmethod
    def global_view(self) -> GlobalView:
        """The devices as one, for ``fit``."""

    def check_variable(self, variable: Any) -> None:
        """Check a variable that was created in this strategy's scope.

        Raises:
            ValueError: Its replicas could not agree on its values.
        """
        if self.num_replicas_in_sync > 1:
            check_agreement(variable)

    @property
    def reporter(self) -> Callable[..., None] | None:
        """Tells the other tasks and the launcher how this one is: takes fields of ``cluster.Progress``."""
        return None

    @property
    def communication_secs(self) -> float:
        """How long this process has communicated so far, outside of compiled programs, in seconds."""
        return 0.0

    def tell_all(self, value: Any) -> list[Any]:
        """Tell all workers a JSON value, and learn what they tell, in their order. All must call this."""
        return [value]

    def __str__(self) -> str:
        return type(self).__name__


# What runs a function outside of others; of methods, for the object, by strategy and method.
_RUNS: ByIdentity[dict[Any, Function]] = ByIdentity()


def _run_of(strategy: Strategy, fn: Callable[..., Any]) -> Function:
    """``run`` outside of a function: compiled once for each object ``fn``, and gone when that is.

    What is compiled holds on to the variables that it uses; so nothing here may hold on to ``fn``.
    """
    owner, method = (fn.__self__, fn.__func__) if inspect.ismethod(fn) else (fn, None)
    runs = _RUNS.get(owner, {})
    if (strategy, method) not in runs:
        code: Callable[[], Any] = weakref.WeakMethod(fn) if method else weakref.ref(fn)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            require_values("run", (args, kwargs), strategy.num_replicas_in_sync)
            return strategy.run(code(), args, kwargs)

        runs[strategy, method] = Function(run)
        _RUNS[owner] = runs
    return runs[strategy, method]


_VALUES = Function(lambda strategy, variable: strategy.run(lambda: variable.value))


def _reduce(strategy: Strategy, op: ReduceOp, value: Any, axis: int | tuple[int, ...] | None) -> Any:
    require_values("reduce", value, strategy.num_replicas_in_sync)
    return strategy.reduce(op, value, axis)


def _gather(strategy: Strategy, value: Any, axis: int) -> Any:
    require_values("gather", value, strategy.num_replicas_in_sync)
    return strategy.gather(value, axis)


_REDUCE = Function(_reduce)
_GATHER = Function(_gather)


def current_strategy() -> Strategy | None:
    """The strategy whose scope this is, or None."""
    return _SCOPE.get()
