"""ClusterCoordinator: has workers run functions, on variables that parameter servers hold."""

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax

from muster.cluster import ClusterSpec, Task, TaskType
from muster.distribute.closures import PURPOSE
from muster.distribute.coordinator._batch_lease import BatchLease
from muster.distribute.coordinator._per_worker import PerWorkerDataset, PerWorkerIterator
from muster.distribute.coordinator._per_worker_values import of_each_worker
from muster.distribute.coordinator._programs import Variables
from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.coordinator._schedule import Closure, Schedule
from muster.distribute.coordinator._traced_closure import TracedClosure
from muster.distribute.coordinator._worker_thread import WorkerThread
from muster.distribute.functions._concrete_function import ConcreteFunction
from muster.distribute.functions._function import Function, kind_of
from muster.distribute.replicas._replica_context import current_context
from muster.distribute.workers import SlidingRate
from muster.ps import Dialer

# How long the threads that call workers may take to end, in seconds.
_END_SECS = 5.0


class TaskLinks(Protocol):
    """Connects a coordinator to the tasks of its job.

    Attributes:
        run: The random id of this coordinator.
    """

    run: str

    def dial_to(self, task: Task, purpose: str) -> Dialer:
        """Return what connects to a task."""

    def name_of(self, task: Task) -> str:
        """Return a task's name and address."""

    def ask(self, task: Task, timeout_secs: float) -> None:
        """Return if a task's process answers; else raise OSError or StrayPeerError."""

    def on_close(self, call: Callable[[], None]) -> None:
        """Call a function before the tasks hear that the job has ended."""

    def report_from(self, sample: Callable[[], Mapping[str, Any]]) -> None:
        """Report fields of ``muster.cluster.Progress`` that a function returns, once a second."""


class CoordinatedStrategy(Protocol):
    """A strategy whose functions workers run.

    Attributes:
        cluster: The tasks of the job.
        links: How to reach them.
        storage: Where variables are; None if there are no parameter servers.
        max_staleness: How many closures' changes the values of a closure may lack; None for any number.
    """

    cluster: ClusterSpec
    links: TaskLinks
    storage: Variables | None
    max_staleness: int | None


class ClusterCoordinator:
    """Has the workers of a cluster run functions.

    `schedule` returns at once; some worker runs the function, and what a worker ran that is lost, another one
    runs again. Functions are traced here, and workers get programs: they need neither the user's code nor
    Keras. An error that a function raises on a worker comes up at the next `schedule`, `join` or `done`, when
    what runs has ended and the rest is cancelled; then the coordinator can be used again.

    A strategy has one: who asks for another gets the same.

    Args:
        strategy: A ``ParameterServerStrategy``.

    Attributes:
        strategy: The strategy.

    Raises:
        TypeError: It is none.

    Source: tensorflow/python/distribute/coordinator/cluster_coordinator.py, ``ClusterCoordinator``.

    Example:
        ```python
        def count(strategy):  # a ParameterServerStrategy
            coordinator = muster.distribute.coordinator.ClusterCoordinator(strategy)
            with strategy.scope():
                total = keras.Variable(0.0, trainable=False)
            step = muster.function(lambda: total.assign_add(1.0))
            for _ in range(100):
                coordinator.schedule(step)
            coordinator.join()
            return float(total)  # 100
        ```
    """

    strategy: Any
    _schedule: Schedule

    def __new__(cls, strategy: Any) -> "ClusterCoordinator":
        if not all(hasattr(strategy, name) for name in ("cluster", "links", "storage")):
            raise TypeError(
                "Only ParameterServerStrategy is supported to work with ClusterCoordinator currently, got "
                f"{strategy!r}."
            )
        existing: ClusterCoordinator | None = vars(strategy).get(_ATTRIBUTE)
        if existing is None:
            existing = super().__new__(cls)
            existing._begin(strategy)
            setattr(strategy, _ATTRIBUTE, existing)
        return existing

    def _begin(self, strategy: CoordinatedStrategy) -> None:
        self.strategy = strategy
        self._kinds: weakref.WeakKeyDictionary[Function, dict[Any, TracedClosure]] = (
            weakref.WeakKeyDictionary()
        )
        indices = strategy.cluster.task_indices(TaskType.WORKER)
        self._schedule = Schedule(max_staleness=strategy.max_staleness, workers=indices)
        links = strategy.links
        links.report_from(functools.partial(_sample, weakref.ref(self._schedule), SlidingRate()))
        self._assigned = 0
        self._workers = 1 + max(strategy.cluster.task_indices(TaskType.WORKER))
        tasks = [Task(TaskType.WORKER, n) for n in strategy.cluster.task_indices(TaskType.WORKER)]
        lanes = [
            WorkerThread(
                task.index,
                links.name_of(task),
                links.dial_to(task, PURPOSE),
                functools.partial(links.ask, task),
                links.run,
                self._schedule,
            )
            for task in tasks
        ]
        self._end_lanes = functools.partial(_end_lanes, self._schedule, lanes)
        links.on_close(self._end_lanes)
        weakref.finalize(self, self._schedule.close).atexit = False

    def schedule(
        self,
        fn: Function | ConcreteFunction,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> RemoteValue:
        """Let some worker run a function.

        Args:
            fn: A `muster.function`, or one of its concrete functions. It is traced for each kind of its
                arguments; it may use variables of the strategy, and `next` of per-worker iterators.
            args: Positional arguments: arrays, constants, per-worker iterators and ``PerWorkerValues``,
                nested. Arrays are copied.
            kwargs: Keyword arguments, likewise.

        Returns:
            The result, which is there once a worker has run the function.

        Raises:
            Exception: What a function has raised that was scheduled before; this one is not run then.
            TypeError: ``fn`` is a plain Python function, or takes other arguments.
            ValueError: An argument is a RemoteValue: fetch it first. Or the values of workers differ in kind.
            TraceError: The function cannot run on workers.
            OutOfRangeError: An iterator that workers share has fewer batches left than the function takes.
            RuntimeError: This coordinator was closed.
        """
        function = fn.function if isinstance(fn, ConcreteFunction) else fn
        if not isinstance(function, Function):
            raise TypeError(
                "`tf.distribute.experimental.coordinator.ClusterCoordinator.schedule` only accepts a "
                f"`tf.function` or a concrete function. Decorate it with @tf.function; got {fn!r}."
            )
        bound = tuple(args or ()), dict(kwargs or {})
        by_worker = of_each_worker(bound, self._workers)
        leaves, structure = by_worker[0]
        iterators = tuple(dict.fromkeys(each for each in leaves if isinstance(each, PerWorkerIterator)))
        kinds_of_workers = [(each, *_kinds_of(own, iterators)) for own, each in by_worker]
        if any([each != kinds_of_workers[0] for each in kinds_of_workers[1:]]):
            raise ValueError(
                "The PerWorkerValues of an argument differ in their structure, shapes, dtypes or constants, "
                f"and workers run one program: {kinds_of_workers}."
            )
        key = kinds_of_workers[0], current_context()
        kinds = self._kinds.setdefault(function, {})
        if (kind := kinds.get(key)) is None:
            _check_bound(function.python_function, *bound)
            kind = kinds[key] = TracedClosure(
                getattr(function, "__name__", repr(function)),
                function.python_function,
                leaves,
                structure,
                self.strategy.storage,
                _count(self.strategy.cluster, TaskType.PS),
            )
        storage = self.strategy.storage
        if storage is not None and storage.assigned != self._assigned:
            self._assigned = storage.assigned
            self._schedule.renew()
        value = RemoteValue(self._schedule.ended, self._schedule.renew)
        arrays, grant = [kind.flat_arrays(own) for own, _ in by_worker], BatchLease(iterators)
        grant.numbers_for(kind.draws)
        try:
            self._schedule.put(Closure(kind, arrays, iterators, value, grant))
        except BaseException:
            grant.give_back()
            raise
        return value

    @property
    def closures(self) -> Schedule:
        """The schedule, for code that schedules closures on behalf of users."""
        return self._schedule

    def join(self) -> None:
        """Wait until all scheduled functions have run; raises what one of them has raised."""
        self._schedule.join()

    def done(self) -> bool:
        """Return whether all scheduled functions have run; raises what one of them has raised."""
        return self._schedule.done()

    def fetch(self, val: Any) -> Any:
        """Wait for results and return them.

        Args:
            val: RemoteValues in a nested structure; other values stay as they are.

        Returns:
            The same structure with NumPy values, as ``RemoteValue.fetch`` returns them.

        Raises:
            Exception: What the function of a RemoteValue has raised; the next `join` raises it, too.
            ValueError: A RemoteValue is of another coordinator.
        """
        return jax.tree.map(self._fetched, val)

    def _fetched(self, leaf: Any) -> Any:
        if not isinstance(leaf, RemoteValue):
            return leaf
        if not leaf.is_of(self._schedule.ended):
            raise ValueError(
                "A RemoteValue of another ClusterCoordinator was given to `fetch`. Give it to that one, or "
                "call the `fetch` of the value itself."
            )
        return leaf.fetch()

    def close(self) -> None:
        """Let go of the workers, which then wait for another coordinator; what has not run is cancelled.

        A program need not call it: workers hear from its end.
        """
        self._end_lanes()

    def create_per_worker_dataset(self, dataset_fn: Any, dispatch: str | None = None) -> PerWorkerDataset:
        """Make a dataset of which each worker has its own, and reads all or what it is handed out.

        Args:
            dataset_fn: A dataset, one of the strategy, or a function that returns one. Workers get the
                function and call it; it is called here, too, to learn what elements are like.
            dispatch: ``"dynamic"`` hands each batch of a pass out to one function that is scheduled,
                whichever worker runs it. The dataset must be the same wherever it is made. None lets each
                worker read all, unless the options of the dataset say ``"dynamic"``.

        Returns:
            A dataset whose iterators are arguments of scheduled functions. Those of a worker that was lost
            start over when it is back, unless workers share them.

        Raises:
            ValueError: It is no dataset, or uses or creates variables; or ``dispatch`` is something else.
            TypeError: The function does not return a dataset.
        """
        return PerWorkerDataset(dataset_fn, dispatch)


_ATTRIBUTE = "_cluster_coordinator"


def _sample(of: "weakref.ref[Schedule]", rate: SlidingRate) -> dict[str, Any]:
    """Return how far a schedule is, as fields of ``muster.cluster.Progress``."""
    schedule = of()
    if schedule is None:
        return {}
    return {
        "closures": schedule.finished,
        "closures_per_sec": rate(schedule.finished),
        "queue": schedule.waiting,
    }


def _end_lanes(schedule: Schedule, lanes: Sequence[WorkerThread]) -> None:
    schedule.close()
    for lane in lanes:
        lane.join(_END_SECS)


def _count(cluster: ClusterSpec, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0


def _kinds_of(leaves: Sequence[Any], iterators: Sequence[PerWorkerIterator]) -> tuple[Any, ...]:
    """Return the kinds of flat arguments: a function is traced anew for other kinds.

    Raises:
        ValueError: One is a RemoteValue.
    """
    return tuple([_kind_of(leaf, iterators) for leaf in leaves])


def _kind_of(leaf: Any, iterators: Sequence[PerWorkerIterator]) -> Any:
    if isinstance(leaf, RemoteValue):
        raise ValueError(
            "`tf.distribute.experimental.coordinator.RemoteValue` used as an input to scheduled function is "
            "not yet supported. Pass what its `fetch` returns."
        )
    if isinstance(leaf, PerWorkerIterator):
        return PerWorkerIterator, leaf.dataset.key, iterators.index(leaf)
    return kind_of(leaf)


def _check_bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError if a function does not take some arguments."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as exc:
        raise TypeError(
            f"Binding inputs to tf.function failed due to `{exc}`. Received args: {args} and kwargs: "
            f"{kwargs} for signature: {signature}."
        ) from None
