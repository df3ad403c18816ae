"""``muster status``, ``logs`` and ``stop`` for a job in a cluster of Kubernetes, which needs no launcher."""

import argparse
import queue
import sys
import threading
import time
from collections.abc import Sequence

from muster._errors import PlacementError
from muster.cluster import Task, TaskType
from muster.engines import (
    KubernetesApi,
    KubernetesError,
    KubernetesJob,
    PodStatus,
    newest,
    outcome,
    pod_status,
    waits_in_queue,
)
from muster.launch._job_state import TaskRecord
from muster.launch._lines import clean_line

_PREFIX = "kubernetes:"
# The kinds of objects that a job may have, by the version of their API.
_KINDS = (
    ("v1", "Secret"),
    ("v1", "Service"),
    ("batch/v1", "Job"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "TFJob"),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
)
_ORDER = [str(each) for each in TaskType]
# How often a job is looked at, and how long its end may take, in seconds.
_WATCH_SECS, _STOP_SECS = 1.0, 630.0


def cluster_job(name: str | None) -> KubernetesJob | None:
    """Return a job of a cluster by its name; None for a job that was started here.

    Args:
        name: ``kubernetes:NAMESPACE/NAME``, or ``kubernetes:NAME`` in the namespace of kubectl's context.

    Raises:
        PlacementError: The cluster has none of that name, or cannot be reached.
        ImportError: The client is not installed.
    """
    if name is None or not name.startswith(_PREFIX):
        return None
    namespace, _, job = name.removeprefix(_PREFIX).rpartition("/")
    found = KubernetesJob(KubernetesApi(namespace), job, ())
    objects = []
    for api, kind in _KINDS:
        try:
            items, _ = found.api.objects(kind, found.selector, api)
        except KubernetesError as exc:
            if exc.status == 404 and "/" in api:
                continue  # the cluster does not have this kind
            raise
        objects += [{"apiVersion": api, "kind": kind, **each} for each in items]
    if not objects:
        raise PlacementError(f"There is no job {job} in the namespace {found.api.namespace}.")
    return KubernetesJob(found.api, job, objects)


def _pods(job: KubernetesJob) -> tuple[list[Task], list[PodStatus]]:
    """Return the tasks that have pods, in order, and the pods."""
    found = [status for status in map(pod_status, job.api.objects("Pod", job.selector)[0]) if status]
    tasks = {pod.task for pod in found}
    return sorted(tasks, key=lambda task: (_ORDER.index(task.type), task.index)), found


def _how(job: KubernetesJob) -> tuple[str, bool]:
    """Return how a job is, for people, and whether it goes on."""
    now = [job.api.get(each) for each in job.workloads]
    ends = [outcome(each) for each in now]
    for end in ends:
        if end is not None and not end[0]:
            return f"has failed: {end[1]}", False
    if all(end is not None for end in ends):
        return "has ended well", False
    return ("waits in a queue" if any(map(waits_in_queue, now)) else "runs"), True


def show_status(job: KubernetesJob, args: argparse.Namespace) -> int:
    """Print how a job and its tasks are; again every second with ``--watch``."""
    # Imported late, as by the other commands: they must not wait for the terminal's library.
    from rich.console import Console

    from muster.launch._view import job_table

    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)
    while True:
        how, goes_on = _how(job)
        print(f"job {_PREFIX}{job.api.namespace}/{job.name} {how}")
        tasks, pods = _pods(job)
        console.print(job_table([_record(task, pods) for task in tasks], console.width))
        if not args.watch or not goes_on:
            return 0
        time.sleep(_WATCH_SECS)


def _record(task: Task, pods: Sequence[PodStatus]) -> TaskRecord:
    pod = newest(pods, task)
    if pod is None:
        raise ValueError(f"{task} has no pod.")
    if pod.code is not None:
        state = "done" if pod.code == 0 else f"exit code {pod.code}"
    else:
        state = "ending" if pod.ends else pod.waits or ("running" if pod.has_log else "pending")
    return TaskRecord(
        type=task.type,
        index=task.index,
        state=f"{state} on {pod.node}" if pod.node else state,
        pid=0,
        address="",
        log="",
        starts=sum(each.task == task for each in pods),
        answers=False,
        progress=None,
        host=pod.node,
    )


def print_logs(job: KubernetesJob, args: argparse.Namespace) -> int:
    """Print what the last pods of tasks have written; go on while they write with ``-f``."""
    tasks, pods = _pods(job)
    known = {f"{task.type}-{task.index}": task for task in tasks}
    for name in args.tasks:
        if name not in known:
            raise PlacementError(f"The job {job.name} has no pod of {name}. It has: {', '.join(known)}")
    wanted = [known[name] for name in args.tasks] or tasks
    width = max(map(len, map(str, wanted)), default=0)
    lines: queue.SimpleQueue[tuple[Task, str | None]] = queue.SimpleQueue()
    for task in wanted:
        pod = newest(pods, task)
        if pod is None or not pod.has_log:
            continue
        read = threading.Thread(target=_read, args=(job, task, pod.name, args.follow, lines), daemon=True)
        read.start()
        if not args.follow:
            read.join()
    left = {task for task in wanted if (pod := newest(pods, task)) is not None and pod.has_log}
    while left:
        task, line = lines.get()
        if line is None:
            left.discard(task)
        else:
            print(line if len(wanted) == 1 else f"{task!s:{width}} | {line}", flush=True)
    return 0


def _read(
    job: KubernetesJob,
    task: Task,
    pod: str,
    follow: bool,
    lines: "queue.SimpleQueue[tuple[Task, str | None]]",
) -> None:
    try:
        for line in job.api.log(pod, "", follow=follow):
            lines.put((task, clean_line(line.partition(b" ")[2])))
    except KubernetesError as exc:
        lines.put((task, str(exc)))
    lines.put((task, None))


def stop_job(job: KubernetesJob) -> int:
    """Delete a job, whose tasks may save and end, and wait until they have."""
    print(f"job {job.name}: its tasks finish their steps, save and end", file=sys.stderr)
    job.delete()
    deadline = time.monotonic() + _STOP_SECS
    while job.api.objects("Pod", job.selector)[0]:
        if time.monotonic() > deadline:
            print(f"job {job.name} has not ended within {_STOP_SECS:g} s", file=sys.stderr)
            return 1
        time.sleep(_WATCH_SECS)
    return 0
