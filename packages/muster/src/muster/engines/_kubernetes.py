"""The engine of a cluster of Kubernetes: it gets a manifest, and starts pods again by itself."""

import contextlib
import dataclasses
import os
import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from muster._text import printable
from muster.cluster import Task
from muster.cluster.roster import Termination
from muster.engines._engine import EXIT_LOST, Place, TaskCondition, TaskExit, TaskRequest, TaskStart
from muster.engines._kubernetes_api import KubernetesApi, KubernetesError, KubernetesJob, Object
from muster.engines._machine import MachineResources
from muster.engines._pods import (
    PodStatus,
    newest,
    outcome,
    pod_status,
    task_exit,
    told_missing,
    waits_in_queue,
)

# How long an image may fail to be pulled, or a container to be made, before its task is given up, in seconds.
PULL_SECS = 60.0
# How often all is looked at, how long to wait when the API does not answer, and for the last lines of a log,
# and for pods to be gone, in seconds.
_LOOK_SECS, _AGAIN_SECS, _LOG_SECS, _GONE_SECS = 5, 1.0, 15.0, 30.0


@dataclasses.dataclass(frozen=True)
class _ClusterSeen:
    """All pods were listed, with their Jobs by name, and the reasons of tasks that have no pod."""

    pods: Sequence[Object]
    workloads: Mapping[str, Object | None]
    complaints: Mapping[Task, str]


@dataclasses.dataclass(frozen=True)
class _WorkloadsSeen:
    """The Jobs of the pods were listed, by name."""

    workloads: Mapping[str, Object | None]


@dataclasses.dataclass(frozen=True)
class _PodChanged:
    """A pod has changed."""

    pod: Object
    deleted: bool


@dataclasses.dataclass(frozen=True)
class _PodWritten:
    """A pod has written something; None: that was all."""

    uid: str
    data: bytes | None


@dataclasses.dataclass(frozen=True)
class _ApiTrouble:
    """The API does not answer, or refuses; empty: it answers again."""

    text: str


_Told: TypeAlias = _ClusterSeen | _WorkloadsSeen | _PodChanged | _PodWritten | _ApiTrouble


@dataclasses.dataclass
class _TaskWaiting:
    """Since when a task waits, and for what; and what the user was told."""

    since: float
    text: str
    told: bool = False


class KubernetesEngine:
    """Hands a manifest to a cluster of Kubernetes, and watches the pods that it starts, and starts again.

    Needs the extra ``kubernetes``.

    Args:
        objects: What the manifest says.
        name: The job's name in the cluster.
        hosts: The host name of each task's pod.
        port: The port that tasks listen at.
        workload_of: The name of the object that makes each task's pods.
        manifest: The manifest, as text.
        namespace: Where; empty: the namespace of kubectl's context.
        pending_secs: How long a task may wait for room before it is given up, in seconds.
    """

    is_local = False
    hosts_return = False
    allots = True

    def __init__(
        self,
        objects: Sequence[Object],
        *,
        name: str,
        hosts: Mapping[Task, str],
        port: int,
        workload_of: Mapping[Task, str],
        manifest: str,
        namespace: str = "",
        pending_secs: float = 600.0,
    ) -> None:
        self.manifest = manifest
        self._name = name
        self._hosts = dict(hosts)
        self._port = port
        self._workload_of = dict(workload_of)
        self._pending_secs = pending_secs
        self._objects, self._namespace = tuple(objects), namespace
        self._job: KubernetesJob | None = None
        self._submitted = False
        self._logs: dict[Task, Path] = {}  # of the tasks that have not ended
        self._sent: dict[Task, int] = {}
        self._pods: dict[str, PodStatus] = {}  # the last state of each that there was
        self._workloads: Mapping[str, Object | None] = {}
        self._complaints: Mapping[Task, str] = {}
        self._open_logs: set[str] = set()  # of pods whose lines are still read
        self._done_logs: set[str] = set()
        self._log_of: dict[str, Path] = {}
        self._missing: dict[Task, Termination] = {}  # what to say of images without muster
        self._current: dict[Task, str] = {}  # the pod that the user knows of
        self._waiting: dict[Task, _TaskWaiting] = {}
        self._ended_at: dict[Task, float] = {}
        self._trouble = ""
        self._news: list[str] = []
        self._queue: queue.SimpleQueue[_Told] = queue.SimpleQueue()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def job(self) -> KubernetesJob:
        """The job in the cluster, which is connected to at the first use.

        Raises:
            ImportError: The client is not installed.
            PlacementError: There is no cluster.
        """
        if self._job is None:
            self._job = KubernetesJob(KubernetesApi(self._namespace), self._name, self._objects)
        return self._job

    def place(
        self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]
    ) -> Mapping[Task, Place]:
        """Let the cluster check the manifest, and return where its pods will listen; see `Engine.place`."""
        self.check(tasks, request, program)
        # Nobody knows the nodes yet, which give what is asked for.
        resources = MachineResources(cores=((0,),))
        return {
            task: Place(
                host=self._hosts[task], address=f"{self._hosts[task]}:{self._port}", resources=resources
            )
            for task in tasks
        }

    def check(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Let the cluster check the manifest, and return it; see `Engine.check`."""
        self.job.submit(dry_run=True)
        return self.manifest.rstrip()

    def submit(self) -> None:
        """Hand the manifest to the cluster.

        Raises:
            KubernetesError: It refuses.
        """
        self.job.submit()
        self._submitted = True

    def start(self, start: TaskStart) -> None:
        """Take a task for started: the first one hands the whole manifest over; see `Engine.start`."""
        if not self._submitted:
            self.submit()
            self._news.append(
                f"The cluster has the job {self._name} in the namespace {self.job.api.namespace}. Its pods: "
                f"kubectl get pods --namespace {self.job.api.namespace} --selector {self.job.selector}"
            )
            self._run_thread(self._look, "muster-kubernetes")
        self._logs[start.task] = start.log

    def fileno(self) -> int:
        """Return a descriptor that is readable when the cluster has told something."""
        return self._reader

    def returned(self) -> list[Task]:
        """Return nothing: the cluster starts tasks again by itself."""
        return []

    def news(self) -> list[str]:
        """Return what the user is to be told; see `Engine.news`."""
        told, self._news = self._news, []
        return told

    def events(self) -> list[TaskExit]:
        """Return the ends of tasks that Kubernetes does not start again; see `Engine.events`."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 1 << 16)
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._queue.get_nowait())
        now = time.monotonic()
        exits = []
        for task in [*self._logs]:
            self._tell(task)
            found = task_exit(task, self._pods.values(), self._workload(task), self._sent.get(task))
            if found is None:
                self._ended_at.pop(task, None)
                found = self._given_up(task, now)
            elif self._misses_lines(task) and now - self._ended_at.setdefault(task, now) < _LOG_SECS:
                continue
            if found is not None and self._workloads:
                if found.code and found.told is None and task in self._missing:
                    found = dataclasses.replace(found, told=self._missing[task])
                exits.append(found)
                del self._logs[task]
                with contextlib.suppress(KubernetesError):  # all is deleted at the end
                    self._delete_if_done(task)
        ended = {pod.task: pod.ended for pod in self._pods.values()}
        return sorted(exits, key=lambda each: ended.get(each.task, "~") or "~")

    def conditions(self) -> Mapping[Task, TaskCondition]:
        """Return how each running task is, as far as the cluster says it; see `Engine.conditions`."""
        return {
            task: TaskCondition(joined=True, finishing=task in self._sent, state=self._state(task))
            for task in self._logs
        }

    def send(self, task: Task, number: int) -> None:
        """Delete what makes a task's pods, at which they get SIGTERM; with SIGKILL at once.

        What makes those of several tasks is deleted when all of them have got a signal.
        """
        if task not in self._logs:
            return
        self._sent.setdefault(task, number)
        try:
            self._delete_if_done(task)
            if number == signal.SIGKILL:
                for pod in self._pods.values():
                    if pod.task == task and pod.lives:
                        self.job.api.delete(_named("Pod", pod.name), 0)
        except KubernetesError as exc:
            self._news.append(f"{task} cannot be ended: {exc}")

    def end_attempt(self) -> bool:
        """Delete all objects of the job, and its pods at once; see `Engine.end_attempt`."""
        if not self._submitted:
            return True
        self._submitted = False
        self._stop.set()
        try:
            self.job.delete(grace_secs=0)
            deadline = time.monotonic() + _GONE_SECS
            while left := self.job.api.objects("Pod", self.job.selector)[0]:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
        except KubernetesError:
            return False
        return not left

    def close(self, code: int = 1) -> None:
        """Delete what is left of the job, unless it was left to the cluster; see `Engine.close`."""
        if self._reader < 0:
            return
        self.end_attempt()
        self._stop.set()
        for thread in self._threads:
            thread.join(_AGAIN_SECS)  # one that waits for the API is a daemon
        reader, self._reader = self._reader, -1
        os.close(reader)
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._writer)

    def detach(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Hand the manifest over, and leave the job to the cluster; see `Engine.detach`."""
        self.check(tasks, request, program)
        self.job.submit()
        name = f"kubernetes:{self.job.api.namespace}/{self._name}"
        return (
            f"The cluster has the job {name}.\n  muster status {name}\n  muster logs -f --job {name}\n"
            f"  muster stop {name}"
        )

    def _workload(self, task: Task) -> Object | None:
        return self._workloads.get(self._workload_of[task], _UNSEEN)

    def _take(self, item: _Told) -> None:
        match item:
            case _ClusterSeen(pods, workloads, complaints):
                self._workloads, self._complaints = workloads, complaints
                there = {pod["metadata"]["uid"] for pod in pods}
                for pod in pods:
                    self._note(pod)
                for uid in [*self._pods]:
                    if uid not in there:
                        self._note_gone(uid)
            case _WorkloadsSeen(workloads):
                self._workloads = workloads
            case _PodChanged(pod, deleted):
                self._note(pod)
                if deleted:
                    self._note_gone(pod["metadata"]["uid"])
            case _PodWritten(uid, None):
                self._done_logs.add(uid)
            case _PodWritten(uid, data):
                with self._log_of[uid].open("ab", buffering=0) as file:
                    file.write(data or b"")
                if (told := told_missing(self._pods[uid], data or b"")) is not None:
                    if told not in self._missing.values():
                        self._news.append(told.reason)
                    self._missing[told.culprit] = told
            case _ApiTrouble(text):
                if text != self._trouble:
                    self._news.append(printable(text) or "The cluster answers again.")
                self._trouble = text

    def _note(self, pod: Object) -> None:
        status = pod_status(pod)
        if status is None or status.task not in self._hosts:
            return
        self._pods[status.uid] = status
        if status.has_log and status.uid not in self._open_logs and status.task in self._logs:
            self._open_logs.add(status.uid)
            self._log_of[status.uid] = self._logs[status.task]
            self._run_thread(self._follow, f"muster-log-{status.name}", status.name, status.uid)

    def _note_gone(self, uid: str) -> None:
        """Note that a pod is gone, unless its end was seen."""
        if uid in self._pods and self._pods[uid].code is None:
            self._pods[uid] = dataclasses.replace(self._pods[uid], gone=True)

    def _misses_lines(self, task: Task) -> bool:
        mine = {pod.uid for pod in self._pods.values() if pod.task == task}
        return bool(mine & self._open_logs - self._done_logs)

    def _tell(self, task: Task) -> None:
        """Tell the user of a task that runs again, or waits for something."""
        pod = newest(self._pods.values(), task)
        if pod is not None and pod.has_log and self._current.get(task) != pod.uid:
            if (before := self._current.get(task)) is not None:
                old = self._pods.get(before)
                why = "was preempted" if old is not None and old.preempted else "has ended"
                code = "" if old is None or old.code is None else f", with exit code {old.code}"
                said = f" {old.told.reason}" if old is not None and old.told is not None else ""
                self._news.append(
                    f"Kubernetes has started {task} again, on {pod.node or 'a node'}, as {pod.name}: the pod "
                    f"before {why}{code}.{printable(said)}"
                )
            self._current[task] = pod.uid
        text = self._lacks(task)
        waiting = self._waiting.get(task)
        if not text:
            self._waiting.pop(task, None)
        elif waiting is None or waiting.text != text:
            since = time.monotonic() if waiting is None else waiting.since
            self._waiting[task] = _TaskWaiting(since, text)
            if not any(other.told and other.text == text for other in self._waiting.values()):
                self._news.append(f"{task} waits: {printable(text)}")
            self._waiting[task].told = True

    def _lacks(self, task: Task) -> str:
        """Return what a task waits for; empty if for nothing, or in a queue."""
        pod = newest(self._pods.values(), task)
        if pod is not None:
            return pod.waits if pod.lives else ""
        if outcome(self._workload(task)) is None and not waits_in_queue(self._workload(task)):
            return self._complaints.get(task, "")
        return ""

    def _given_up(self, task: Task, now: float) -> TaskExit | None:
        """Return the end of a task that has waited for too long."""
        waiting = self._waiting.get(task)
        if waiting is None or task in self._sent:
            return None
        pod = newest(self._pods.values(), task)
        cannot = pod is not None and pod.cannot
        limit = PULL_SECS if cannot else self._pending_secs
        if now - waiting.since < limit:
            return None
        how = "cannot be started" if cannot else "has found no room"
        reason = f"{task} {how} within {limit:.0f} s: {printable(waiting.text)}"
        return TaskExit(task=task, code=EXIT_LOST, told=Termination(task, reason), lost=True)

    def _state(self, task: Task) -> str:
        pod = newest(self._pods.values(), task)
        if task in self._sent:
            return "ending"
        if task in self._waiting:
            return f"waits: {printable(self._waiting[task].text)}"
        if pod is not None and pod.lives:
            return "running" if pod.has_log else "pending"
        return "in a queue" if waits_in_queue(self._workload(task)) else "pending"

    def _delete_if_done(self, task: Task) -> None:
        """Delete what makes the pods of a task if no other of its tasks is to go on."""
        name = self._workload_of[task]
        left = [each for each in self._logs if self._workload_of[each] == name]
        if left and all(each in self._sent for each in left):
            for each in self.job.workloads:
                if each["metadata"]["name"] == name:
                    self.job.api.delete(each)

    def _run_thread(self, act: Any, name: str, *args: str) -> None:
        thread = threading.Thread(target=act, name=name, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _put(self, item: _Told) -> None:
        self._queue.put(item)
        with contextlib.suppress(OSError):  # it is full, or nobody reads any more
            os.write(self._writer, b"!")

    def _look(self) -> None:
        """Look at all that there is, again and again, and at changes in between; a thread."""
        job = self.job
        while not self._stop.is_set():
            try:
                pods, version = job.api.objects("Pod", job.selector)
                have = {status.task for status in map(pod_status, pods) if status is not None}
                lack = {task: self._complaint(task) for task in self._hosts if task not in have}
                self._put(_ClusterSeen(pods, self._asked_workloads(), lack))
                self._put(_ApiTrouble(""))
                for pod, deleted in job.api.changes(job.selector, version, _LOOK_SECS):
                    self._put(_PodChanged(pod, deleted))
                    status = pod_status(pod)
                    if deleted or (status is not None and status.code is not None):
                        self._put(_WorkloadsSeen(self._asked_workloads()))  # one may have ended with it
                    if self._stop.is_set():
                        break
            except KubernetesError as exc:
                self._put(_ApiTrouble(f"{exc} The job goes on there; this command tries again."))
                self._stop.wait(_AGAIN_SECS)

    def _asked_workloads(self) -> dict[str, Object | None]:
        """Ask for what makes the pods, as it is now."""
        return {each["metadata"]["name"]: self.job.api.get(each) for each in self.job.workloads}

    def _complaint(self, task: Task) -> str:
        """Return why a task has no pod; empty if the cluster does not complain."""
        name = self._workload_of[task]
        for each in (name, f"{name}-{task.type}-0", f"{name}-node-0"):  # the latter of a JobSet
            if said := self.job.api.complaints(each):
                return said[-1]
        return ""

    def _follow(self, name: str, uid: str) -> None:
        """Read what a pod writes until it has ended; a thread."""
        last, same = "", 0  # the time of the last line, and how many lines have had it
        while not self._stop.is_set():
            pod = self._pods.get(uid)
            has_ended = pod is None or not pod.lives
            known, skipped = last, same
            try:
                for line in self.job.api.log(name, last):
                    first, _, text = line.partition(b" ")
                    stamp = first.decode(errors="replace")
                    if stamp == known and skipped:
                        skipped -= 1
                    elif stamp >= known:
                        last, same = stamp, same + 1 if stamp == last else 1
                        self._put(_PodWritten(uid, text + b"\n"))
                    if self._stop.is_set():
                        break
            except KubernetesError as exc:
                if exc.status == 404:
                    break
            if has_ended:
                break
            self._stop.wait(_AGAIN_SECS / 5)
        self._put(_PodWritten(uid, None))


# What makes a task's pods, before it was looked at.
_UNSEEN: Object = {"metadata": {}}


def _named(kind: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
