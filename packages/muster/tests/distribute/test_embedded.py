"""What a guest in somebody else's process has begun ends with its block, not with the process."""

import atexit
import socket

import numpy as np
import pytest

import muster
from muster import _remote
from muster._errors import DatasetError
from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import note_training, read_note
from muster.cluster import Task
from muster.cluster.roster._roster import exit_because_lost
from muster.distribute import Server, embedded, function
from muster.distribute.workers._workers import SingleWorker, lone_roster
from remote_stores import faulty_store as faulty_store


@pytest.fixture(autouse=True)
def nothing_at_exit(monkeypatch):
    """Let nothing of muster's be registered for the end of the process."""
    calls = []
    monkeypatch.setattr(atexit, "register", lambda call, *args, **kwargs: calls.append(repr(call)))
    yield
    assert not [call for call in calls if "muster" in call or "_roster" in call], calls


def test_the_note_of_a_training_says_that_it_has_ended(tmp_path):
    for _ in range(2):
        with embedded():
            note_training(tmp_path)
            assert read_note(tmp_path).is_on
        assert not read_note(tmp_path).is_on

    def fail():
        with embedded():
            note_training(tmp_path)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert read_note(tmp_path).is_on


def test_a_label_that_is_no_class_is_named():
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    layer, optimizer = keras.layers.Dense(5), keras.optimizers.SGD(0.1)
    layer.build((4, 3))
    optimizer.build(layer.trainable_variables)

    @function
    def train(features, labels):
        with muster.GradientTape() as tape:
            loss = loss_of(labels, layer(features))
        variables = layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    def guest():
        with embedded():
            train(np.ones((4, 3), np.float32), np.array([0, 5, 1, 2]))

    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        guest()


def test_summaries_are_sent_to_a_store(faulty):
    with embedded():
        place = local_path("faulty://bucket/run/events", remote=True)
        with open(place, "w") as file:
            file.write("a summary")
        _remote.publish_soon(place)
        assert not faulty.exists("/bucket/run/events")
    assert faulty.cat_file("/bucket/run/events") == b"a summary"


def test_the_only_worker_of_a_job_is_free_for_the_next(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        config = f'{{"cluster": {{"worker": ["{address}"]}}, "task": {{"type": "worker", "index": 0}}}}'
        monkeypatch.setenv("TF_CONFIG", config)
        monkeypatch.setenv("MUSTER_LISTEN_FD", str(listener.fileno()))
        lone_roster.cache_clear()  # a test before may have found that there is none
        rosters = []
        for _ in range(2):
            with embedded():
                rosters.append(SingleWorker()._roster)
        assert None not in rosters
        assert rosters[0] is not rosters[1]


def test_the_loss_of_another_task_ends_no_process(caplog):
    with embedded():
        exit_because_lost(Task("worker", 1), "it is gone.")
    assert "worker 1 is lost: it is gone." in caplog.text


def test_a_server_ends(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with embedded():
        server = Server({"worker": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}, "worker", 0)
        assert server._roster._thread.running
    assert not server._roster._thread.running
