"""A cluster whose tasks could not meet is refused at once, not after hours of waiting."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from muster._errors import ClusterError
from muster.distribute import MultiWorkerMirroredStrategy
from muster.distribute.strategies._multi_worker_mirrored import _first_of

WORKER_0 = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("cluster", "task", "says"),
    [
        ({}, None, "does not say which task this is.*Set both, such as"),
        ({}, {"type": "worker", "index": None}, "does not say which task this is"),
        ({}, {"index": 0}, "does not say which task this is"),
        ({"wroker": ["c:1"]}, WORKER_0, "Rename 'wroker', such as to 'worker'"),
        ({"master": ["c:1"]}, WORKER_0, "Rename 'master', such as to 'chief'"),
        ({"chief": ["c:1", "d:1"]}, WORKER_0, "at most one 'chief'"),
        ({}, {"type": "worker", "index": 2}, "exceeds the maximum id of worker"),
        ({}, {"type": "wroker", "index": 1}, "Unrecognized task_type: wroker"),
        ({"chief": ["host"]}, WORKER_0, "chief 0 has a wrong address.* host:port.*Given: 'host'"),
        ({"chief": ["host:x"]}, WORKER_0, "chief 0 has a wrong address"),
        ({"chief": ["a host:1"]}, WORKER_0, "chief 0 has a wrong address"),
        ({"chief": ["http://host:1"]}, WORKER_0, "chief 0 has a wrong address"),
        ({"ps": ["p:1"]}, {"type": "ps", "index": 0}, "uses no parameter servers. Leave the job 'ps' out"),
    ],
)
def test_a_wrong_cluster_is_refused_at_once(
    cluster: dict[str, list[str]], task: dict[str, Any] | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"cluster": {"worker": ["a.invalid:1", "b.invalid:1"], **cluster}}
    if task is not None:
        config["task"] = task
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ClusterError, match=says):
        MultiWorkerMirroredStrategy(session_creation_timeout_secs=0.1)


def test_a_task_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"task": {"type": "worker", "index": 1}}))
    with pytest.raises(ClusterError, match="worker 1 of an empty cluster: each of its tasks would train by"):
        MultiWorkerMirroredStrategy()


@pytest.mark.parametrize(
    ("platform", "count", "warns"), [("gpu", 2, True), ("gpu", 1, False), ("cpu", 2, False)]
)
def test_a_worker_of_an_elastic_job_says_that_it_uses_one_gpu(
    platform: str, count: int, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    devices: Any = [SimpleNamespace(platform=platform, id=index) for index in range(count)]
    assert _first_of(devices) is devices[0]
    assert ("a worker of an elastic job has one" in caplog.text) == warns
