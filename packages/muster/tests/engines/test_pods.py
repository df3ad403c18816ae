"""What pods and Jobs say about tasks: the API's objects alone."""

import dataclasses
import signal
from types import SimpleNamespace

import pytest

from muster._version import __version__
from muster.cluster import Task
from muster.cluster.roster import EXIT_PEER_LOST
from muster.engines import EXIT_LOST, KubernetesEngine, KubernetesError, newest, outcome, pod_status
from muster.engines._pods import task_exit, told_missing

W0, W1 = Task("worker", 0), Task("worker", 1)
RUNS, COMPLETE = (
    {"metadata": {}},
    {"metadata": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
)
FAILED = {
    "metadata": {},
    "status": {"conditions": [{"type": "Failed", "status": "True", "message": "backoff limit"}]},
}


def pod(index=0, number=1, state=None, phase="Running", labels=None, conditions=(), deleted=False, **status):
    return {
        "metadata": {
            "name": f"a-{index}-{number}",
            "uid": f"{index}-{number}",
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
            "labels": {"app.kubernetes.io/component": "worker", **(labels or {})},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            **({"deletionTimestamp": "now"} if deleted else {}),
        },
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "4"}}}]},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            **({} if state is None else {"containerStatuses": [{"state": state}]}),
            **status,
        },
    }


def ended(index=0, number=1, code=1, message="", reason="Error", **more):
    state = {
        "terminated": {"exitCode": code, "message": message, "reason": reason, "finishedAt": f"t{number}"}
    }
    return pod_status(pod(index, number, state, "Failed" if code else "Succeeded", **more))


def runs(index=0, number=1, **more):
    return pod_status(pod(index, number, {"running": {}}, **more))


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, 0), (3, 3), (137, -9), (139, -11), (143, -15), (130, -2), (175, 175), (255, 255)],
)
def test_signals_are_told_from_exit_codes(code, expected):
    assert ended(code=code).code == expected


def test_what_a_task_has_told_is_read():
    told = ended(code=175, message="worker 1\nworker 1 is lost.\n").told
    assert (told.culprit, told.reason) == (W1, "worker 1 is lost.")
    assert ended(message="anything").told is None


def test_memory_and_eviction_are_named():
    assert "more memory than its limit" in ended(code=137, reason="OOMKilled").told.reason
    evicted = pod_status(pod(phase="Failed", reason="Evicted", message="The node was low on: memory."))
    assert (evicted.code, evicted.told.reason) == (
        EXIT_LOST,
        "worker 0: Evicted: The node was low on: memory.",
    )


def test_an_image_without_the_interpreter_is_named():
    message = 'exec: "python": executable file not found in $PATH'
    told = ended(code=128, message=message, reason="StartError").told
    assert told.reason == (
        f"The container of worker 0 cannot be run: {message}. Name an interpreter that its image has by "
        "--python, or another image by --image."
    )


@pytest.mark.parametrize(
    ("line", "package"),
    [
        (b"ModuleNotFoundError: No module named 'muster'\n", f"muster-train=={__version__}"),
        (b"ModuleNotFoundError: No module named 'muster_other'\r\n", "muster-other"),
        (b"ModuleNotFoundError: No module named 'mine'", None),
        (b"He wrote: ModuleNotFoundError: No module named 'muster'", None),
        (b"", None),
    ],
)
def test_an_image_without_muster_is_named(line, package):
    pod = dataclasses.replace(runs(), image="python:3.13")
    told = told_missing(pod, line)
    assert (told is not None) is (package is not None)
    if package:
        assert "the Python of the image python:3.13 lacks it" in told.reason
        assert f"`RUN pip install {package}`" in told.reason


def test_what_a_pod_waits_for():
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes",
    }
    found = pod_status(pod(phase="Pending", conditions=[unschedulable]))
    assert (found.waits, found.cannot) == ("it asks for cpu 4: 0/3 nodes", False)
    found = pod_status(pod(state={"waiting": {"reason": "ErrImagePull", "message": "no such"}}))
    assert (found.waits, found.cannot) == ("ErrImagePull: no such", True)
    assert pod_status(pod(state={"waiting": {"reason": "ContainerCreating"}})).waits == ""


def test_other_pods_are_none_of_a_task():
    other = pod()
    del other["metadata"]["labels"]
    assert pod_status(other) is None
    operators = pod(labels={"training.kubeflow.org/replica-index": "2"})
    operators["metadata"]["annotations"] = {}
    assert pod_status(operators).task == Task("worker", 2)


def test_a_task_goes_on_while_it_is_started_again():
    assert task_exit(W0, [ended()], RUNS, None) is None
    assert task_exit(W0, [], RUNS, None) is None
    assert task_exit(W0, [ended(), runs(number=2)], FAILED, None) is None  # it is about to be ended


def test_a_good_end_counts_at_once_and_a_bad_one_when_it_is_for_good():
    assert task_exit(W0, [ended(code=0)], RUNS, None).code == 0
    found = task_exit(W0, [ended(number=1), ended(number=2, code=3)], FAILED, None)
    assert (found.code, found.lost) == (3, False)
    # Another has failed for good: this one was ended for it.
    assert task_exit(W0, [ended(code=143, deleted=True)], FAILED, None).code == EXIT_PEER_LOST
    assert task_exit(W0, [], FAILED, None).code == EXIT_PEER_LOST
    # As a server that its chief does not need any more.
    assert task_exit(W0, [ended(code=143, deleted=True)], COMPLETE, None).code == 0


@pytest.mark.parametrize(("code", "expected"), [(143, -2), (0, 0), (1, 1), (137, -9)])
def test_a_task_that_was_told_to_end_has_got_the_signal_that_was_sent(code, expected):
    assert task_exit(W0, [ended(code=code, deleted=True)], None, signal.SIGINT).code == expected


def test_a_job_that_is_deleted_by_somebody_is_lost():
    for pods in ([], [ended(code=0, deleted=True)]):
        found = task_exit(W0, pods, None, None)
        assert (found.code, found.lost) == (EXIT_LOST, True)
        assert found.told.reason == "worker 0 is gone: it was deleted in the cluster."
    assert outcome({"metadata": {"deletionTimestamp": "now"}}) == (False, "it was deleted in the cluster")


def test_the_newest_pod_is_the_last_that_was_made():
    assert newest([runs(number=2), ended(number=1), runs(1, 3)], W0).uid == "0-2"
    assert newest([], W0) is None


def test_lines_of_one_time_are_all_read_and_none_twice():
    """Those of a traceback may have one; and the connection breaks in the middle of it."""
    engine = KubernetesEngine([], name="a", hosts={W0: "h"}, port=1, workload_of={W0: "a"}, manifest="")
    readings = iter([[b"t1 a", b"t2 b", b"t2 c"], [b"t1 a", b"t2 b", b"t2 c", b"t2 d", b"t3 e"]])

    def log(name, since):
        yield from next(readings)
        engine._pods.pop("u", None)  # it has ended, when it is looked at again
        raise KubernetesError("The connection has broken.", 0)

    engine._job = SimpleNamespace(api=SimpleNamespace(log=log))
    engine._pods["u"] = runs()
    engine._follow("a", "u")
    told = [engine._queue.get_nowait().data for _ in range(6)]
    assert told == [b"a\n", b"b\n", b"c\n", b"d\n", b"e\n", None]
    engine.close()
