"""What a front end may put into an EstimatorSpec, and do with the input of an Estimator."""

import numpy as np
import pytest
from linear import dataset, model_fn, train_input

from muster.checkpoint import list_checkpoints, read_checkpoint
from muster.estimator import Estimator, ModelSetup, RunConfig, SessionRunHook
from muster.extend import Frontend, install

pytestmark = pytest.mark.usefixtures("compiled_once")

START = np.float32([[1], [2]])


class Setup(ModelSetup):
    retention = (2, 10000.0)

    def initialize(self, values):
        values["w"] = START

    def chosen(self, stored, source, without):
        return {"w": np.zeros_like(stored["w"])}


def test_a_setup_sets_values_and_says_how_many_checkpoints_are_kept(tmp_path):
    def model(features, labels, mode):
        return model_fn(features, labels, mode)._replace(scaffold=Setup())

    config = RunConfig(save_checkpoints_steps=1, keep_checkpoint_max=4, log_step_count_steps=None)
    estimator = Estimator(model, str(tmp_path), config).train(train_input, steps=1)
    first = next(each for each in list_checkpoints(tmp_path) if each.step == 0)
    np.testing.assert_array_equal(read_checkpoint(first.path).variables["w"], START)
    estimator.train(train_input, steps=2)
    assert [each.step for each in list_checkpoints(tmp_path)] == [2, 3]
    w = next(estimator.predict(dataset))["y"] - estimator.get_variable_value("b")
    assert w.tolist() == [0.0]  # of the chosen values


def test_a_front_end_makes_the_input_and_sees_it_before_it_is_read(tmp_path):
    seen = []
    hook = SessionRunHook()
    frontend = Frontend(
        input=lambda call, trains: (seen.append(trains), call())[1],
        before_reading=lambda read, hooks: seen.append([*hooks]),
    )
    install(frontend)
    try:
        Estimator(model_fn, str(tmp_path)).train(train_input, [hook], steps=1)
    finally:
        install(None)
    assert seen == [True, [hook]]
