"""Hooks that say what they know by get_state go on with it after an interruption."""

import numpy as np
import pytest
from linear import model_fn

from muster._errors import CheckpointError
from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, RunConfig, SessionRunHook

pytestmark = pytest.mark.usefixtures("compiled_once")


def input_fn():
    r = np.random.default_rng(0)
    features, labels = r.normal(size=(64, 2)), r.normal(size=(64, 1))
    return (
        Dataset.from_tensor_slices((features.astype("float32"), labels.astype("float32"))).batch(8).repeat()
    )


class Patience(SessionRunHook):
    """Stops where the loss has been no better than the best for some steps."""

    def __init__(self, patience, fails_at=None):
        self.patience, self.fails_at = patience, fails_at
        self.told = []

    def begin(self):
        self.best, self.wait, self.losses = np.float32("inf"), 0, np.zeros(0, np.float32)

    def after_create_session(self, session, coord):
        self.told.append(len(self.losses))

    def after_run(self, run_context, run_values):
        loss = run_context.session.run("loss")
        self.losses = np.append(self.losses, loss)
        self.best, self.wait = (loss, 0) if loss < self.best else (self.best, self.wait + 1)
        if self.wait >= self.patience:
            run_context.request_stop()
        if run_context.session.global_step == self.fails_at:
            raise InterruptedError

    def get_state(self):
        return {"best": self.best, "wait": self.wait, "losses": self.losses}

    def set_state(self, state):
        self.best, self.wait, self.losses = state["best"], state["wait"], state["losses"]


def estimator(folder, steps=3, **config):
    return Estimator(
        model_fn, str(folder), RunConfig(tf_random_seed=1, save_checkpoints_steps=steps, **config)
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_a_hook_goes_on(tmp_path, devices):
    def strategy():
        return MirroredStrategy([f"/cpu:{n}" for n in range(devices)])

    whole = Patience(8)
    estimator(tmp_path / "whole", train_distribute=strategy()).train(input_fn, hooks=[whole], max_steps=40)
    assert 8 <= len(whole.losses) < 40
    parts = estimator(tmp_path / "parts", train_distribute=strategy())
    with pytest.raises(InterruptedError):
        parts.train(input_fn, hooks=[Patience(8, fails_at=8)], max_steps=40)
    saved = read_checkpoint(latest_checkpoint(tmp_path / "parts"))
    again = Patience(8)
    estimator(tmp_path / "parts", train_distribute=strategy()).train(input_fn, hooks=[again], max_steps=40)
    assert again.told == [saved.step] == [6]  # the state after the step that was saved
    np.testing.assert_array_equal(again.losses, whole.losses)
    assert (again.best, again.wait) == (whole.best, whole.wait)


def test_two_of_a_class_have_their_own(tmp_path):
    first = [Patience(100), Patience(200)]
    first[1].get_state = lambda: {"best": np.float32(-1), "wait": 0, "losses": np.ones(2)}
    estimator(tmp_path).train(input_fn, hooks=first, max_steps=2)
    again = [Patience(100), Patience(200), Patience(300)]
    estimator(tmp_path).train(input_fn, hooks=again, max_steps=3)
    assert [each.told for each in again] == [[2], [2], [0]]
    assert again[1].best == -1


def test_half_of_the_two(tmp_path):
    class Half(SessionRunHook):
        def set_state(self, state):
            pass

    with pytest.raises(TypeError, match=r"The hook .*Half has set_state only"):
        estimator(tmp_path).train(input_fn, hooks=[Half()], steps=1)


def test_a_state_that_cannot_be_kept(tmp_path):
    hook = Patience(9)
    hook.get_state = lambda: {"model": object()}
    with pytest.raises(
        TypeError, match="Patience.get_state returned what a checkpoint cannot keep, a value of"
    ):
        estimator(tmp_path).train(input_fn, hooks=[hook], steps=1)


def test_a_state_that_is_not_taken(tmp_path):
    estimator(tmp_path).train(input_fn, hooks=[Patience(9)], steps=1)
    hook = Patience(9)
    hook.set_state = lambda state: state["rate"]
    with pytest.raises(CheckpointError, match=r"hook Patience does not take its state of .*ckpt-1, KeyError"):
        estimator(tmp_path).train(input_fn, hooks=[hook], steps=1)
