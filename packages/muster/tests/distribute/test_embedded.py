"""What a guest in somebody else's process has begun ends with its block, not with the process."""

import atexit
import contextlib
import socket
from types import SimpleNamespace

import numpy as np
import pytest

import muster
from muster import _remote
from muster._errors import DatasetError, PeerLostError
from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import note_training, read_note
from muster.cluster import Task
from muster.cluster.roster import EXIT_PEER_LOST
from muster.cluster.roster._roster import exit_because_lost
from muster.distribute import Server, embedded, function
from muster.distribute.workers import _group_agreement
from muster.distribute.workers._elastic_workers import ElasticWorkers
from muster.distribute.workers._workers import SingleWorker, lone_roster
from muster.lifecycle import Terminated
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


def giving_up(monkeypatch):
    """The workers of a task that is the first of those who are left, and waits no longer for others."""
    monkeypatch.setattr(_group_agreement, "write_termination", lambda *args: None)
    workers, group = object.__new__(ElasticWorkers), object.__new__(_group_agreement.GroupAgreement)
    group._task, group._gave_up, group._has_newest = Task("worker", 1), "It has waited 600 s.", True
    group._on_place, group._saves, group.loop = (lambda *place: None), None, object()
    group.ending = workers._ending = SimpleNamespace(agreed=False, fail=lambda error: None)
    workers._group, workers.reporting = group, lambda state: contextlib.nullcontext()
    return workers, group


def give_up_in_a_loop(group, saved):
    try:
        group._give_up()
    except Terminated:
        saved.append("as after a signal")
        raise


@pytest.mark.parametrize("kind", [PeerLostError, Terminated])
def test_the_last_worker_that_gives_up_saves_and_ends_no_guest(kind, monkeypatch):
    workers, group = giving_up(monkeypatch)
    saved = []
    with embedded() if kind is PeerLostError else contextlib.nullcontext():
        with pytest.raises(kind) as caught, workers.supervised(doing="train"):
            give_up_in_a_loop(group, saved)
    assert saved
    if kind is PeerLostError:
        assert str(caught.value) == "worker 1 cannot go on: It has waited 600 s."
    else:
        assert caught.value.code == EXIT_PEER_LOST


def test_a_guest_that_is_told_to_end_is_told_so():
    """SIGTERM, and what says the same, stay what they are."""
    group = object.__new__(_group_agreement.GroupAgreement)
    group._saves = None
    with embedded(), pytest.raises(Terminated), group.ending_no_guest():
        raise Terminated(143)


def test_a_server_ends(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with embedded():
        server = Server({"worker": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}, "worker", 0)
        assert server._roster._thread.running
    assert not server._roster._thread.running
