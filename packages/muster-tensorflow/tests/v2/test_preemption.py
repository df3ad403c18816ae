"""What a handler of preemptions does, step by step."""

import gc
import os
import signal
import threading

import pytest

import muster_tensorflow as tf
from muster_tensorflow.programs.v2.checkpoints import _preemption
from muster_tensorflow.programs.v2.checkpoints._preemption import Plan, Preemption, Word

experimental = tf.distribute.experimental
Handler, Config = experimental.PreemptionCheckpointHandler, experimental.TerminationConfig


class TestPreemption:
    def test_without_a_notice_all_go_on(self):
        machine = Preemption(0.0)
        assert machine.word(None, 1.0, 100.0) == Word.NOTHING
        assert machine.plan([0, 0], 0) is Plan.GO_ON

    def test_without_a_grace_period_a_notice_is_the_last_call_for_all(self):
        machine = Preemption(0.0)
        assert machine.word(99.0, 0.0, 100.0) == Word.LAST_CALL
        assert machine.plan([0, Word.LAST_CALL, 0], 0) is Plan.SAVE_AND_EXIT

    def test_a_grace_period_is_used_but_for_what_the_end_needs(self):
        machine = Preemption(60.0)
        assert machine.word(100.0, 3.0, 101.0) == Word.NOTICE
        assert machine.plan([Word.NOTICE, 0], 0) is Plan.SAVE
        machine.has_saved = True
        assert machine.word(100.0, 3.0, 156.9) == Word.NOTED
        assert machine.plan([Word.NOTED, 0], 0) is Plan.GO_ON
        assert machine.plan([Word.NOTED, Word.NOTICE], 0) is Plan.SAVE
        assert machine.word(100.0, 3.0, 157.0) == Word.LAST_CALL
        assert machine.plan([Word.LAST_CALL, Word.NOTED], 1) is Plan.SAVE_AND_EXIT

    def test_who_comes_and_goes_leaves_the_others_alone_after_a_second(self):
        machine = Preemption(0.0, leaves_alone=True)
        assert machine.word(100.0, 0.5, 100.0) == Word.NOTICE
        assert machine.plan([Word.NOTICE, 0], 0) is machine.plan([Word.NOTICE, 0], 1) is Plan.SAVE
        machine.has_saved = True
        assert machine.word(100.0, 0.5, 100.9) == Word.NOTED
        assert machine.plan([Word.NOTED, 0], 0) is Plan.GO_ON
        assert machine.word(100.0, 0.5, 101.0) == Word.LAST_CALL
        assert machine.plan([Word.LAST_CALL, 0], 0) is Plan.LEAVE
        assert machine.plan([Word.LAST_CALL, 0], 1) is Plan.GO_ON

    @pytest.mark.parametrize("words", [[Word.NOTICE, Word.NOTICE], [Word.NOTED, Word.NOTICE], [Word.NOTICE]])
    def test_all_that_come_and_go_end_together_if_all_have_a_notice(self, words):
        assert Preemption(0.0, leaves_alone=True).plan(words, 0) is Plan.SAVE_AND_EXIT
        assert Preemption(60.0, leaves_alone=True).plan(words, 0) is Plan.SAVE
        last = [Word.LAST_CALL, Word.NOTED]
        assert Preemption(60.0, leaves_alone=True).plan(last, 1) is Plan.SAVE_AND_EXIT


@pytest.fixture
def sigterm():
    """The program's own handler."""
    taken = []
    before = signal.signal(signal.SIGTERM, lambda *_: taken.append(True))
    yield taken
    gc.collect()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def counter():
    return tf.Variable(0, trainable=False)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_notice_ends_before_the_next_step(tmp_path, counter, sigterm):
    handler = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path)
    assert handler.run(lambda add, to: (counter.assign_add(add), to)[1], 1, to="result") == "result"
    terminate()
    with pytest.raises(SystemExit) as ended:
        handler.run(counter.assign_add, 1)
    assert ended.value.code == 143
    terminate()  # the launcher may tell a process twice
    assert sigterm == []

    counter.assign(7)
    again = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path)
    assert (again.total_run_calls, int(counter)) == (1, 1)


def test_steps_that_the_program_calls_itself_are_counted(tmp_path, counter, sigterm):
    saved = []
    config = Config(exit_fn=lambda: saved.append("exit"), save_fn=lambda name: saved.append(name))
    handler = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path, config)
    handler.save_checkpoint_if_preempted("no")
    terminate()
    handler.save_checkpoint_if_preempted("yes")
    assert saved == ["yes", "exit"]
    handler.save_checkpoint_if_preempted("no")
    assert handler.total_run_calls == 3
    assert saved == ["yes", "exit"]
    terminate()
    assert sigterm == [True]  # after exit_fn the signal is the program's again


def test_a_save_of_the_programs_own_has_the_count_too(tmp_path, counter, sigterm):
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(counter=counter), tmp_path, max_to_keep=2)
    handler = Handler(None, manager)
    for _ in range(3):
        handler.run(lambda: None)
    manager.save()
    handler.run(lambda: None)
    fresh = tf.train.CheckpointManager(tf.train.Checkpoint(counter=counter), tmp_path, max_to_keep=2)
    assert Handler(None, fresh).total_run_calls == 3


def test_a_grace_period(tmp_path, counter, sigterm, monkeypatch):
    saves = []
    config = Config(grace_period=60.0, save_fn=lambda: saves.append(handler.total_run_calls))
    handler = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path, config)
    now = _preemption.time.monotonic()
    monkeypatch.setattr(_preemption.time, "monotonic", lambda: now)
    handler.run(lambda: None)
    terminate()
    for _ in range(3):
        handler.run(lambda: None)
    assert saves == [1]
    now += 60
    with pytest.raises(SystemExit):
        handler.run(lambda: None)
    assert saves == [1, 4]


def test_a_function_that_watches(tmp_path, counter, sigterm, monkeypatch):
    monkeypatch.setattr(_preemption, "_LOOK_SECS", 0.001)
    told = threading.Event()
    config = Config(termination_watcher_fn=told.is_set)
    handler = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path, config)
    handler.run(lambda: None)
    told.set()
    (thread,) = (each for each in threading.enumerate() if each.name == "muster-notice")
    thread.join(10)
    with pytest.raises(SystemExit):
        handler.run(lambda: None)
    terminate()
    assert sigterm == [True]  # which is not asked for


def test_a_handler_that_is_gone_watches_no_longer(tmp_path, counter, sigterm):
    handler = Handler(None, tf.train.Checkpoint(counter=counter), tmp_path)
    polling = Handler(
        None, tf.train.Checkpoint(counter=counter), tmp_path, Config(termination_watcher_fn=lambda: False)
    )
    del handler, polling
    gc.collect()
    terminate()
    assert sigterm == [True]
    assert not [each for each in threading.enumerate() if each.name == "muster-notice"]


def test_refused(tmp_path, counter):
    checkpoint = tf.train.Checkpoint(counter=counter)
    with pytest.raises(ValueError, match="a checkpoint_dir must be passed as well"):
        Handler(None, checkpoint)
    with pytest.raises(TypeError, match=r"Give a tf.train.Checkpoint or a CheckpointManager, got 3\."):
        Handler(None, 3, tmp_path)
    cluster = tf.train.ClusterSpec({"worker": ["a:1"], "ps": ["a:2"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
    with pytest.raises(NotImplementedError, match="the others go on without a worker"):
        Handler(resolver, checkpoint, tmp_path)
