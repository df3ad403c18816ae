"""MultiWorkerMirroredStrategy: replicas on the devices of several processes."""

import atexit
import contextlib
import functools
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster.cluster import (
    ClusterResolver,
    Roster,
    Task,
    TaskState,
    TaskType,
    TFConfigClusterResolver,
    training_tasks,
)
from muster.distribute.engine._compiled import CompiledStep, Executables, Step, StepMaker
from muster.distribute.engine._exchanged import ExchangedStep, program_run
from muster.distribute.engine._global_view import GlobalView
from muster.distribute.engine._linked_view import LinkedView
from muster.distribute.engine._packing import Packing
from muster.distribute.engine._replicated import AXIS, ReplicatedFunction, ReplicatedStep, runs_ahead
from muster.distribute.functions._function import Traced, run_traced
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._shared_batches import SharedBatches, Signals, batches_for_replicas
from muster.distribute.strategies._communication import CommunicationOptions
from muster.distribute.strategies._mirrored import local_devices
from muster.distribute.strategies._strategy import MEET_SECS, State, Strategy
from muster.distribute.workers._link import Link
from muster.program import Program, VariableSpec, functions_run_eagerly

_log = logging.getLogger(__name__)

# How long, in seconds, another worker may be silent before it is given up.
SILENCE_SECS = 30.0


class MultiWorkerMirroredStrategy(Strategy):
    """Trains on the devices of several processes: variables on each, a batch for each, gradients added.

    Build it at the start of the program, before JAX looks for devices: that is when the tasks of the cluster
    meet, in whatever order they were started. From then on each watches the others; when one is gone, has
    failed or stands still, the others say so and end.

    Args:
        cluster_resolver: says who is in the job; None reads ``TF_CONFIG``. Where there is but one training
            task, and for an evaluator, the devices are those of this process; without a cluster, those that
            MirroredStrategy takes.
        communication_options: how gradients are added, and how long to wait for another worker.
        session_creation_timeout_secs: how long to wait for the other tasks to come up, in seconds.
            RunConfig's argument of this name says how long they may then take until their first step.

    Raises:
        ClusterError: This task is not one of the cluster.
        RosterError: Another task does not come, or does not fit, or the address of this one is taken.
        ValueError: NCCL is asked for where there are no GPUs.

    Source: tensorflow/python/distribute/collective_all_reduce_strategy.py, ``CollectiveAllReduceStrategy``.
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        session_creation_timeout_secs: float = MEET_SECS,
    ) -> None:
        self._options = communication_options or CommunicationOptions()
        self._timeout = self._start_secs = session_creation_timeout_secs
        self._resolver = resolver = cluster_resolver or TFConfigClusterResolver()
        cluster = resolver.cluster_spec()
        self._task = Task(resolver.task_type or "worker", resolver.task_id or 0)
        tasks = training_tasks(cluster)
        alone = len(tasks) < 2 or self._task.type == TaskType.EVALUATOR
        self._tasks = (self._task,) if alone else tasks
        self._cluster = cluster
        self._roster: Roster | None = None
        self._link: Link | None = None
        self._ending: _Ending | None = None
        if not alone:
            silence = self._options.timeout_seconds or SILENCE_SECS
            roster = Roster.from_environ(os.environ, cluster, self._task, heartbeat_secs=silence)
            self._ending = _Ending(roster)
            self._roster = roster
            self._link = self._ending.link = self._meet(roster)
        devices = jax.devices() if cluster else local_devices()
        self._options.check_platform(devices[0].platform)
        self._mesh = Mesh(np.array(devices), (AXIS,))
        local = self._mesh.local_devices
        # Values of workers with one CPU device each meet outside of XLA, see ExchangedStep.
        self._exchanges = not alone and len(devices) == len(self._tasks) and local[0].platform == "cpu"

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver

    @property
    def num_replicas_in_sync(self) -> int:
        return self._mesh.size

    @property
    def input_context(self) -> InputContext:
        return InputContext(len(self._tasks), self._tasks.index(self._task), self.num_replicas_in_sync)

    @property
    def sharding(self) -> jax.sharding.Sharding:
        if self._exchanges or self._mesh.size == 1:
            return SingleDeviceSharding(self._mesh.local_devices[0])
        return NamedSharding(self._mesh, P())

    @property
    def own_sharding(self) -> jax.sharding.Sharding:
        return self.sharding if self._exchanges else NamedSharding(self._mesh, P(AXIS))

    def place(self, state: State) -> State:
        values = [np.asarray(value) for value in state.values()]
        if self._link is not None:
            values = self._link.copy_first(values)  # the chief's initial values
        return {
            path: jax.make_array_from_process_local_data(self.sharding, value)
            for path, value in zip(state, values, strict=True)
        }

    def compile(self, program: Program[Any], executables: Executables) -> Step:
        if self._mesh.size == 1:  # there is nobody to meet
            return super().compile(program, executables)
        if functions_run_eagerly():
            raise ValueError(
                f"run_functions_eagerly(True) debugs one replica; {self} has {self.num_replicas_in_sync}. "
                "Leave the strategy out to debug."
            )
        self._require_same(program.variables)
        pack = self._options.bytes_per_pack
        if self._exchanges and self._link is not None:
            run = functools.partial(program_run, program)
            return CompiledStep(ExchangedStep(run, self._link, pack), executables)
        packing = Packing(bytes_per_pack=pack)
        return self._on_mesh(ReplicatedStep(program, self._mesh, packing), executables)

    def compile_function(self, traced: Traced, executables: Executables) -> Step:
        if self._mesh.size == 1:
            return super().compile_function(traced, executables)
        self._require_same(traced.program.variables)
        pack = self._options.bytes_per_pack
        if self._exchanges and self._link is not None:
            run = functools.partial(run_traced, traced)
            return CompiledStep(ExchangedStep(run, self._link, pack), executables)
        packing = Packing(bytes_per_pack=pack)
        return self._on_mesh(ReplicatedFunction(traced, self._mesh, packing), executables)

    @property
    def global_view(self) -> GlobalView:
        if self._exchanges and self._link is not None:
            return LinkedView(self._mesh, self._link, self._options.bytes_per_pack)
        return GlobalView(self._mesh)

    def _require_same(self, variables: Sequence[VariableSpec]) -> None:
        if self._link is not None:
            self._link.require_equal("variables", [str(variable) for variable in variables])

    def _on_mesh(self, make: StepMaker, executables: Executables) -> Step:
        return CompiledStep(make, executables, run_ahead=runs_ahead(self._mesh))

    @contextlib.contextmanager
    def share_batches(
        self, batches: Iterator[Any], first: Any, signals: Signals | None = None
    ) -> Iterator[Iterator[Any]]:
        replicas = len(self._mesh.local_devices)
        batches = batches_for_replicas(batches, replicas)
        if self._link is None:
            yield batches
            return
        shared = SharedBatches(batches, first, self._link, signals, replicas)
        try:
            yield shared
        except BaseException:
            if shared.interrupted:
                self._link.tell_all("interrupted")  # the chief has saved: none is missed from here on
                if self._ending is not None:
                    self._ending.agreed = True
            raise
        shared.stop()

    @contextlib.contextmanager
    def together(self, start_secs: float = MEET_SECS) -> Iterator[None]:
        self._start_secs = start_secs
        try:
            with self.doing(TaskState.STARTING):
                yield
        except BaseException as exc:
            if self._ending is not None:
                self._ending.fail(exc)
            raise

    @contextlib.contextmanager
    def doing(self, state: TaskState) -> Iterator[None]:
        if self._roster is None:
            yield
            return
        before = self._roster.progress.state
        self._roster.report(state=state)
        try:
            yield
        finally:
            self._roster.report(state=before)

    @property
    def reporter(self) -> Callable[..., None] | None:
        return None if self._roster is None else self._roster.report

    @property
    def communication_secs(self) -> float:
        return 0.0 if self._link is None else self._link.secs

    def tell_all(self, value: Any) -> list[Any]:
        return [value] if self._link is None else self._link.tell_all(value)

    def _patience(self, rank: int) -> float | None:
        """How long a worker may keep this one waiting, in seconds, by what it says that it is doing."""
        if self._roster is None:
            return None
        state = self._roster.statuses()[self._tasks[rank]].progress.state
        match state:
            case TaskState.STARTING | TaskState.WAITING:
                return self._start_secs
            case TaskState.EVALUATING | TaskState.SAVING if self._roster.progress.state != state:
                return None  # that is the chief's to do, and may take long
            case _:
                return self._options.timeout_seconds or None

    def _meet(self, roster: Roster) -> Link:
        """Wait for the other tasks, and let their JAX runtimes find each other."""
        roster.wait_for_all(self._timeout)
        first = self._tasks[0]
        if self._task == first:
            host = self._cluster.task_address(first.type, first.index).rpartition(":")[0]
            roster.announce("coordinator", f"{host}:{_free_port()}")
        # It would take SIGTERM away from Python, to tell of it where nobody asks.
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            coordinator_address=roster.lookup(first, "coordinator", self._timeout),
            num_processes=len(self._tasks),
            process_id=self._tasks.index(self._task),
            cluster_detection_method="deactivate",
            shutdown_timeout_seconds=7 * 24 * 3600,  # one may work on alone when the others are done
        )
        names = [str(task) for task in self._tasks]
        link = Link(self._tasks.index(self._task), names, self._patience)
        roster.announce("link", [link.port, link.token])

        def look_up(rank: int) -> tuple[str, int, str]:
            task = self._tasks[rank]
            host = self._cluster.task_address(task.type, task.index).rpartition(":")[0]
            port, token = roster.lookup(task, "link", self._timeout)
            return host, port, token

        link.connect(look_up, self._timeout)
        return link


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


class _Ending:
    """Lets this process and the others end together: an error here is told to them, as is a clean end.

    After an error the process ends without JAX's own shutdown, which would wait for workers that are gone,
    and abort.

    Attributes:
        link: closed at the end; None until there is one.
        agreed: whether all workers have agreed to end early, so that to end is no failure.
    """

    def __init__(self, roster: Roster) -> None:
        self.link: Link | None = None
        self.agreed = False
        self._roster = roster
        self._code: int | None = None
        self._report = sys.excepthook
        sys.excepthook = self._uncaught
        atexit.register(self._leave)

    def fail(self, error: BaseException) -> None:
        """Tell the others of an error that passes here, unless it is what they have agreed on."""
        if self.agreed:
            return
        code = error.code if isinstance(error, SystemExit) else 1
        self._code = code if isinstance(code, int) else 0 if code is None else 1
        self._roster.fail(error)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._report(kind, error, trace)
        if self.agreed and issubclass(kind, KeyboardInterrupt):
            return
        self._roster.fail(error)
        self._exit(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def _leave(self) -> None:
        if self._code is not None:
            self._exit(self._code)
        if self.link is not None:
            self.link.close()  # a worker that still waits for this one learns that it need not
        if jax.distributed.is_initialized():
            jax.distributed.shutdown()  # waits for the others, and the roster watches them meanwhile
        self._roster.done()
        self._roster.close()

    def _exit(self, code: int) -> None:
        self._roster.close()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
