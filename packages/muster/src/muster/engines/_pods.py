"""Read the states of tasks from pods and Jobs of Kubernetes; pure, on the API's objects."""

import dataclasses
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster._text import printable
from muster._version import __version__
from muster.cluster import Task
from muster.cluster.roster import EXIT_PEER_LOST, Termination, parse_termination
from muster.engines._engine import EXIT_LOST, TaskExit

# The labels by which the pods of a job are known, and their tasks.
NAME_LABEL = "app.kubernetes.io/name"
ROLE_LABEL = "app.kubernetes.io/component"
_INDEX = "batch.kubernetes.io/job-completion-index"
_OPERATORS_INDEX = "training.kubeflow.org/replica-index"

# Why a container does not start, when waiting for it does not help much.
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Why a container has ended that was never run, such as for want of its command.
_NOT_RUN = ("StartError", "ContainerCannotRun")
# What Python says last of a program whose import fails.
_MISSING = re.compile(rb"ModuleNotFoundError: No module named '(muster\w*)'")
_PASSING = ("", "ContainerCreating", "PodInitializing")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PodStatus:
    """How the pod of a task is.

    Args:
        task: The task.
        name: The pod's name.
        uid: What tells it from others of that name.
        created: When it was made, as text that sorts by time.
        node: The node that it is on; empty for none yet.
        has_log: Whether its container runs, or has run.
        code: What its container has ended with, as `TaskExit` has it; None while it has not.
        ended: When that was.
        told: What the task, or Kubernetes, says of the end.
        waits: What keeps it from starting; empty if nothing does.
        cannot: Whether that is its image or its configuration, and not a lack of room.
        ends: Whether it is being deleted.
        preempted: Whether Kubernetes has ended it for reasons that are not its own.
        gone: Whether it is no more, though nobody has seen how its container has ended.
        image: That of its container.
    """

    task: Task
    name: str
    uid: str
    created: str
    node: str = ""
    has_log: bool = False
    code: int | None = None
    ended: str = ""
    told: Termination | None = None
    waits: str = ""
    cannot: bool = False
    ends: bool = False
    preempted: bool = False
    gone: bool = False
    image: str = ""

    @property
    def lives(self) -> bool:
        """True if its container runs, or is still to run."""
        return self.code is None and not self.gone


def pod_status(pod: Mapping[str, Any]) -> PodStatus | None:
    """Return how the pod of a task is; None if it is none of a task.

    Args:
        pod: The pod, as the API returns it.
    """
    metadata, status = pod["metadata"], pod.get("status", {})
    task = _task_of(metadata)
    if task is None:
        return None
    containers = status.get("containerStatuses") or [{}]
    state = containers[0].get("state", {})
    ended, waiting = state.get("terminated"), state.get("waiting", {})
    waits = ""
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("reason") == "Unschedulable":
        waits = f"it asks for {_asked(pod)}: {scheduled.get('message') or 'no node has room'}"
    if waiting.get("reason", "") not in _PASSING:
        waits = f"{waiting['reason']}: {waiting.get('message', '')}".removesuffix(": ")
    code, told = None, None
    if ended is not None:
        code, told = _code(ended["exitCode"]), _why(task, ended)
    elif status.get("phase") == "Failed":  # such as one that was evicted before its container ran
        code = EXIT_LOST
    if status.get("phase") == "Failed" and status.get("message") and told is None:
        told = Termination(task, f"{task}: {status.get('reason', 'Failed')}: {status['message']}")
    return PodStatus(
        task=task,
        name=metadata["name"],
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp", ""),
        node=pod.get("spec", {}).get("nodeName", ""),
        has_log="running" in state or ended is not None,
        code=code,
        ended=(ended or {}).get("finishedAt") or "",
        told=told,
        waits=waits,
        cannot=waiting.get("reason") in (*_NO_IMAGE, *_NO_CONTAINER),
        ends="deletionTimestamp" in metadata,
        preempted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        image=_container(pod).get("image", ""),
    )


def _task_of(metadata: Mapping[str, Any]) -> Task | None:
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    index = notes.get(_INDEX) or labels.get(_INDEX) or labels.get(_OPERATORS_INDEX)
    if ROLE_LABEL not in labels or index is None:
        return None
    return Task(labels[ROLE_LABEL], int(index))


def _code(code: int) -> int:
    """Return a container's exit code, in which a signal is 128 and its number, as a process' return code."""
    number = code - 128
    return -number if number in {*map(int, signal.Signals)} and number < signal.SIGRTMIN else code


def _why(task: Task, ended: Mapping[str, Any]) -> Termination | None:
    if ended.get("reason") == "OOMKilled":
        return Termination(
            task, f"{task} has needed more memory than its limit, and was killed: ask for more by --memory."
        )
    if ended.get("reason") in _NOT_RUN:
        why = printable(ended.get("message") or ended["reason"])
        return Termination(
            task,
            f"The container of {task} cannot be run: {why}. Name an interpreter that its image has by "
            "--python, or another image by --image.",
        )
    return parse_termination(ended.get("message") or "")


def told_missing(pod: PodStatus, line: bytes) -> Termination | None:
    """Return why a pod ends if a line that it has written says that it lacks muster; None if it does not."""
    found = _MISSING.fullmatch(line.strip())
    if found is None:
        return None
    module = found[1].decode()
    package = f"muster-train=={__version__}" if module == "muster" else module.replace("_", "-")
    return Termination(
        pod.task,
        f"{pod.task} has no {module}: the Python of the image {printable(pod.image)} lacks it. Build one "
        f"with `RUN pip install {package}`, as `muster manifest dockerfile` prints it. Or name another image "
        "by --image, or the interpreter that has it by --python.",
    )


def outcome(workload: Mapping[str, Any] | None) -> tuple[bool, str] | None:
    """Return whether a Job, JobSet, TrainJob or TFJob has ended well, and what it says; None if it goes on.

    Args:
        workload: The object; None if it is gone.
    """
    if workload is None or "deletionTimestamp" in workload["metadata"]:
        return False, "it was deleted in the cluster"
    for each in workload.get("status", {}).get("conditions") or ():
        if each["status"] == "True" and each["type"] in ("Complete", "Completed", "Succeeded", "Failed"):
            said = each.get("message") or each.get("reason") or ""
            return each["type"] != "Failed", said
    return None


def waits_in_queue(workload: Mapping[str, Any] | None) -> bool:
    """Return whether Kueue, or somebody, has yet to let a job begin."""
    return workload is not None and bool(workload.get("spec", {}).get("suspend"))


def newest(pods: Iterable[PodStatus], task: Task) -> PodStatus | None:
    """Return the last pod of a task; None if it has none."""
    mine = [pod for pod in pods if pod.task == task]
    return max(mine, key=lambda pod: (pod.created, pod.lives, pod.ended), default=None)


def task_exit(
    task: Task, pods: Iterable[PodStatus], workload: Mapping[str, Any] | None, sent: int | None
) -> TaskExit | None:
    """Return the end of a task that Kubernetes does not start again; None while it runs, or will.

    Args:
        task: The task.
        pods: The pods that have been, in their last states.
        workload: What has made them; None if it is gone.
        sent: The signal that the launcher has sent the task, by deleting it; None for none.
    """
    mine = [pod for pod in pods if pod.task == task]
    # One that is told to end may come to a good end all the same, which is not that of its program.
    if any(pod.code == 0 and (sent is not None or not pod.ends) for pod in mine):
        return TaskExit(task=task, code=0)
    how = outcome(workload)
    if how is None or any(pod.lives for pod in mine):
        return None
    well, said = how
    if well:
        return TaskExit(task=task, code=0)
    last = newest(mine, task)
    if sent is not None:
        code = -signal.SIGTERM if last is None or last.code is None else last.code
        # Kubernetes knows no other signal than SIGTERM.
        told = code if abs(code) not in (signal.SIGTERM, 128 + signal.SIGTERM) else -sent
        return TaskExit(task=task, code=told)
    if last is not None and not last.ends and last.code is not None:
        return TaskExit(task=task, code=last.code, told=last.told)
    if workload is None or "deletionTimestamp" in workload["metadata"]:
        gone = Termination(task, f"{task} is gone: {said}.")
        return TaskExit(task=task, code=EXIT_LOST, told=gone, lost=True)
    return TaskExit(task=task, code=EXIT_PEER_LOST)  # it was ended since another task has failed for good


def _container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers: Sequence[Mapping[str, Any]] = pod.get("spec", {}).get("containers") or [{}]
    return containers[0]


def _asked(pod: Mapping[str, Any]) -> str:
    """Return what a pod asks for, for people."""
    resources = _container(pod).get("resources") or {}
    wanted = {**resources.get("requests", {}), **resources.get("limits", {})}
    return ", ".join(f"{name} {amount}" for name, amount in wanted.items()) or "nothing in particular"
