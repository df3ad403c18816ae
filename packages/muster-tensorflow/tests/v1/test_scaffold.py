"""Scaffold: initial values that a function sets, and how many checkpoints are kept."""

import logging

import numpy as np
import pytest
from line_models import model_fn, train_input

import muster_tensorflow.compat.v1 as tf
from muster.checkpoint import list_checkpoints, write_checkpoint
from muster.estimator import Estimator, EstimatorSpec, RunConfig

pytestmark = pytest.mark.usefixtures("compiled_once")

START = np.float32([[1], [2]])


def estimator(folder, make_scaffold, **config):
    """The model of linear.py with a scaffold."""

    def scaffolded(features, labels, mode):
        return model_fn(features, labels, mode)._replace(scaffold=make_scaffold())

    return Estimator(scaffolded, str(folder), RunConfig(log_step_count_steps=None, **config))


def test_init_fn_sets_what_variables_start_from_once(tmp_path):
    called = []

    def init_fn(scaffold, session):
        called.append(scaffold)
        assert {"b", "w", "global_step"} <= set(session.variables())
        assert session.get_variable_value("w").tolist() == [[0], [0]]
        session.set_variable_value("w", START.tolist())

    def made():
        return estimator(tmp_path, lambda: tf.train.Scaffold(init_fn=init_fn), save_checkpoints_steps=1)

    untrained = made().evaluate(train_input, steps=1)
    assert len(called) == 1  # there is no checkpoint yet
    est = made().train(train_input, steps=1)
    assert len(called) == 2
    assert isinstance(called[0], tf.train.Scaffold)
    first = tf.train.load_variable(str(tmp_path / "ckpt-0"), "w")
    np.testing.assert_array_equal(first, START)
    assert est.evaluate(train_input, steps=1)["loss"] < untrained["loss"]
    made().train(train_input, steps=1)
    assert len(called) == 2


@pytest.mark.parametrize(
    ("var_list", "expected"),
    [
        (None, [[5], [6]]),
        (["w"], [[5], [6]]),
        ({"old/w": "w"}, [[7], [8]]),
    ],
)
def test_a_saver_restores_initial_values(tmp_path, var_list, expected):
    stored = {"w": np.float32([[5], [6]]), "old/w": np.float32([[7], [8]]), "global_step": np.int32(9)}
    write_checkpoint(tmp_path / "trained", 9, stored, {})

    def scaffold():
        saver = tf.train.Saver(var_list)
        path = str(tmp_path / "trained" / "ckpt-9")
        return tf.train.Scaffold(init_fn=lambda scaffold, session: saver.restore(session, path))

    estimator(tmp_path / "model", scaffold).train(train_input, steps=1)
    assert tf.train.load_variable(str(tmp_path / "model" / "ckpt-0"), "w").tolist() == expected
    assert tf.train.load_variable(str(tmp_path / "model" / "ckpt-0"), "global_step") == 0


def test_the_saver_says_how_many_checkpoints_are_kept(tmp_path):
    est = estimator(
        tmp_path,
        lambda: tf.train.Scaffold(copy_from_scaffold=tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=2))),
        save_checkpoints_steps=1,
        keep_checkpoint_max=4,
    )
    est.train(train_input, steps=5)
    assert [each.step for each in list_checkpoints(tmp_path)] == [4, 5]


def test_a_hook_with_such_a_saver_saves(tmp_path):
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=tf.train.Saver())
    estimator(tmp_path, tf.train.Scaffold).train(train_input, [hook], steps=2)
    assert [each.step for each in list_checkpoints(tmp_path)] == [0, 1, 2]


def test_what_sets_up_a_graph_is_ignored_with_one_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        estimator(tmp_path, lambda: tf.train.Scaffold(ready_op=1, local_init_op=2)).train(
            train_input, steps=1
        )
    (told,) = [each.message for each in caplog.records if "Scaffold" in each.message]
    assert told.startswith("Scaffold ignores ready_op, local_init_op: there is no graph")


def test_a_checkpoint_as_saver_is_ignored_with_one_warning(tmp_path, caplog):
    def scaffold():
        return tf.train.Scaffold(saver=tf.train.Checkpoint(step=tf.train.get_global_step()))

    with caplog.at_level(logging.WARNING, "muster"):
        est = estimator(tmp_path, scaffold).train(train_input, steps=2)
    [told] = [record.message for record in caplog.records if "Scaffold" in record.message]
    assert told.startswith("Scaffold ignores its saver, a Checkpoint: an Estimator saves all variables")
    assert est.get_variable_value("global_step") == 2


@pytest.mark.parametrize(
    ("init_fn", "error", "message"),
    [
        (lambda _, session: session.set_variable_value("w", [1]), ValueError, r"w has the shape \(2, 1\)"),
        (lambda _, session: session.set_variable_value("v", 1), KeyError, "There is no variable 'v'"),
        (lambda _, session: session.set_variable_value("global_step", 3), ValueError, "starts at 0"),
    ],
)
def test_values_that_variables_cannot_start_from(tmp_path, init_fn, error, message):
    with pytest.raises(error, match=message):
        estimator(tmp_path, lambda: tf.train.Scaffold(init_fn=init_fn)).train(train_input, steps=1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: EstimatorSpec("eval", loss=START[0], scaffold=3),
            TypeError,
            "must be tf.train.Scaffold",
        ),
        (lambda: tf.train.Scaffold(saver=3), TypeError, "saver must be a tf.compat.v1.train.Saver"),
        (lambda: tf.train.Scaffold(copy_from_scaffold=3), TypeError, "copy_from_scaffold is not a Scaffold"),
        (lambda: tf.train.Saver(reshape=True), ValueError, "reshape must be False"),
        (lambda: tf.train.Saver(max_too_keep=3), TypeError, "no arguments .'max_too_keep'"),
    ],
)
def test_arguments_that_are_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()
