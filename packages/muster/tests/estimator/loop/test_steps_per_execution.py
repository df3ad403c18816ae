"""Steps that are dispatched together: the same training, and hooks that fire at their steps."""

import os
import signal

import numpy as np
import pytest

import muster
from muster._errors import NanLossDuringTrainingError
from muster._keras import keras
from muster.checkpoint import latest_checkpoint, list_checkpoints, read_checkpoint
from muster.data import Dataset, TensorSpec
from muster.distribute import MirroredStrategy
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    LoggingTensorHook,
    RunConfig,
    SessionRunHook,
    StepCounterHook,
)

pytestmark = pytest.mark.usefixtures("compiled_once")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 250)


def model_fn(features, labels, mode):
    logits = keras.Sequential([keras.layers.Dropout(0.3), keras.layers.Dense(3)])(features, training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.Adam(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return Dataset.from_tensor_slices((X, Y)).batch(32).repeat()  # the eighth batch has 26 rows


class Seen(SessionRunHook):
    """Notes each step that it is called at."""

    def __init__(self, due=None):
        self.steps, self.due = [], due

    def after_run(self, run_context, run_values):
        self.steps.append(run_context.session.global_step)

    def steps_until_due(self, session):
        return self.due(session.global_step) if self.due else super().steps_until_due(session)


def trained(model_dir, steps_per_execution, hooks=(), strategy=None, steps=50, **config):
    config = RunConfig(
        tf_random_seed=1, steps_per_execution=steps_per_execution, train_distribute=strategy, **config
    )
    est = Estimator(model_fn, str(model_dir), config)
    est.train(input_fn, hooks=list(hooks), max_steps=steps)
    return {name: est.get_variable_value(name) for name in est.get_variable_names()}


@pytest.mark.samples("2")
@pytest.mark.parametrize("replicas", [1, 2])
def test_training_is_the_same(tmp_path, replicas):
    def strategy():
        return MirroredStrategy([f"/cpu:{i}" for i in range(replicas)])

    seen = Seen(due=lambda step: None)
    one = trained(tmp_path / "one", 1, strategy=strategy())
    five = trained(tmp_path / "five", 5, [seen], strategy=strategy())
    assert one.keys() == five.keys()
    for name, value in one.items():
        np.testing.assert_allclose(five[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(seen.steps) < 20


def test_hooks_fire_at_their_steps(tmp_path):
    seen = Seen(due=lambda step: 7 - step % 7)
    trained(
        tmp_path, 5, [seen], save_checkpoints_steps=12, keep_checkpoint_max=None, log_step_count_steps=None
    )
    assert [checkpoint.step for checkpoint in list_checkpoints(tmp_path)] == [0, *range(12, 49, 12), 50]
    assert set(range(7, 50, 7)) <= set(seen.steps)
    assert seen.steps[-1] == 50
    assert len(seen.steps) < 30


def test_a_hook_that_does_not_say_when_it_is_due_is_called_at_every_step(tmp_path):
    seen = Seen()
    trained(tmp_path, 5, [seen], steps=12)
    assert seen.steps == list(range(1, 13))


@pytest.mark.slow
def test_values_are_logged_at_the_same_steps(tmp_path, caplog):
    caplog.set_level("INFO")

    def logged(steps_per_execution):
        caplog.clear()
        hooks = [LoggingTensorHook(["global_step"], every_n_iter=10), StepCounterHook(every_n_steps=20)]
        folder = tmp_path / str(steps_per_execution)
        trained(folder, steps_per_execution, hooks, log_step_count_steps=None)
        return [
            record.message.split(" (")[0] for record in caplog.records if "global_step = " in record.message
        ]

    expected = [f"global_step = {step}" for step in (1, 11, 21, 31, 41)]
    assert [logged(1), logged(4)] == [expected, expected]


def test_the_end_of_the_data_is_reached(tmp_path):
    est = Estimator(model_fn, str(tmp_path), RunConfig(steps_per_execution=3))
    est.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(32))
    assert est.get_variable_value("global_step") == 8


def test_an_interruption_while_drawing_saves_where_the_steps_are(tmp_path):
    def batches():
        for i in range(20):
            if i == 8:
                os.kill(os.getpid(), signal.SIGINT)
            yield X[:4], Y[:4]

    kind = (TensorSpec((4, 5), np.float32), TensorSpec((4,), Y.dtype))
    config = RunConfig(steps_per_execution=5, save_summary_steps=None, log_step_count_steps=None)
    est = Estimator(model_fn, str(tmp_path), config)
    with pytest.raises(KeyboardInterrupt):
        est.train(lambda: Dataset.from_generator(batches, output_signature=kind))
    last = read_checkpoint(latest_checkpoint(tmp_path))
    assert (last.step, last.metadata["input"]["pipelines"][0]["elements"]) == (5, 5)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "two"])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="steps_per_execution"):
        RunConfig(steps_per_execution=wrong)


RATINGS = np.ones(64, np.float32)
RATINGS[9] = np.nan  # of one user alone, whose row becomes NaN


def factors(features, labels, mode):
    user = keras.layers.Embedding(64, 4, name="user")(features)
    loss = keras.ops.mean((keras.ops.sum(user, -1) - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "batch", [4, 5]
)  # the last run with batches of 5 has one of 4 rows, and is not compiled
def test_a_loss_that_is_nan_in_one_step_of_a_run_is_seen(tmp_path, replicas, batch):
    strategy = MirroredStrategy([f"cpu:{i}" for i in range(replicas)])
    ratings = RATINGS if batch == 4 else np.roll(RATINGS, 50)
    config = RunConfig(steps_per_execution=4, train_distribute=strategy)
    est = Estimator(factors, str(tmp_path), config)
    with pytest.raises(NanLossDuringTrainingError):
        est.train(lambda: Dataset.from_tensor_slices((np.arange(64), ratings)).batch(batch))
    assert [checkpoint.step for checkpoint in list_checkpoints(str(tmp_path))] == [0]


def counting_twice(features, labels, mode):
    spec = model_fn(features, labels, mode)
    muster.get_or_create_global_step().assign_add(1)
    return spec


def test_steps_that_add_more_than_one_are_taken_one_by_one(tmp_path):
    config = RunConfig(tf_random_seed=1, steps_per_execution=10, save_checkpoints_steps=20)
    Estimator(counting_twice, str(tmp_path), config).train(input_fn, max_steps=34)
    assert [checkpoint.step for checkpoint in list_checkpoints(str(tmp_path))] == [0, 20, 34]
