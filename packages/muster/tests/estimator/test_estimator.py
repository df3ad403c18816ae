"""Estimator: train, evaluate, predict, restore; and what it says to bad input."""

import errno
import gc
import inspect
import json
import logging
import os

import numpy as np
import pytest
from linear import COUNT, FEATURES, LABELS, dataset, estimator, model_fn, train_input

import muster
from muster._keras import keras
from muster.checkpoint import list_checkpoints, read_metadata, restore_latest
from muster.data import Dataset
from muster.distribute import OneDeviceStrategy
from muster.estimator import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    Estimator,
    EstimatorSpec,
    EvalSpec,
    LoggingTensorHook,
    ModeKeys,
    RunConfig,
    SessionRunHook,
    StopAtStepHook,
    TrainSpec,
    WarmStartSettings,
    train_and_evaluate,
)
from muster.summary import read_events
from noted_losses import Losses

pytestmark = pytest.mark.usefixtures("compiled_once")


class StopAfter(SessionRunHook):
    """Breaks off like a crash."""

    def __init__(self, runs):
        self.runs = runs

    def after_run(self, run_context, run_values):
        self.runs -= 1
        if self.runs == 0:
            raise InterruptedError("crash")


def test_training_evaluating_and_predicting(tmp_path):
    est = estimator(tmp_path)
    assert est.train(train_input, steps=200) is est
    metrics = est.evaluate(dataset)
    assert set(metrics) == {"loss", "error", "global_step"}
    assert metrics["global_step"] == 200
    predictions = list(est.predict(lambda: Dataset.from_tensor_slices(FEATURES).batch(10)))
    assert len(predictions) == COUNT
    errors = np.abs(np.array([p["y"] for p in predictions]) - LABELS)
    assert metrics["error"] == pytest.approx(errors.mean(), rel=1e-5)
    assert est.get_variable_names() == [
        "b",
        "error/count",
        "error/total",
        "global_step",
        "sgd/iteration",
        "sgd/learning_rate",
        "w",
    ]
    assert est.get_variable_value("w").shape == est.get_variable_value("w:0").shape == (2, 1)
    assert est.latest_checkpoint() == str(tmp_path / "ckpt-200")
    with pytest.raises(ValueError, match="no variable 'x'. There are: b, "):
        est.get_variable_value("x")


@pytest.mark.samples("1", "64", "600")
@pytest.mark.parametrize("batch_size", [1, 7, 64, 600, 1797, 4000])
def test_evaluation_counts_every_example_once(tmp_path, batch_size):
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 10, 1797), rng.integers(0, 10, 1797)
    values = rng.normal(size=1797).astype(np.float32)

    def counting(features, labels, mode):
        count, mean = keras.metrics.Sum(name="count"), keras.metrics.Mean(name="mean")
        accuracy = keras.metrics.Accuracy(name="accuracy")
        count.update_state(keras.ops.ones_like(features["value"]))
        mean.update_state(features["value"])
        accuracy.update_state(labels, features["prediction"])
        ops = {"count": count, "mean": mean, "accuracy": accuracy}
        return EstimatorSpec(mode, loss=keras.ops.mean(features["value"]), eval_metric_ops=ops)

    features = {"value": values, "prediction": predictions}
    metrics = estimator(tmp_path, counting).evaluate(
        lambda: Dataset.from_tensor_slices((features, labels)).batch(batch_size)
    )
    assert metrics["count"] == 1797
    assert metrics["accuracy"] == pytest.approx(np.mean(labels == predictions), abs=1e-6)
    assert metrics["mean"] == pytest.approx(values.astype(np.float64).mean(), abs=1e-6)


def test_training_that_crashed_goes_on_at_the_next_example(tmp_path):
    shuffled = lambda: Dataset.from_tensor_slices((FEATURES, LABELS)).shuffle(64).batch(6).repeat()  # noqa: E731
    first = Losses()
    with pytest.raises(InterruptedError):
        estimator(tmp_path / "a", save_checkpoints_steps=7).train(
            shuffled, hooks=[first, StopAfter(25)], max_steps=40
        )
    second = Losses()
    estimator(tmp_path / "a", save_checkpoints_steps=7).train(shuffled, hooks=[second], max_steps=40)
    assert sorted(second.by_step) == list(range(22, 41))
    common = first.by_step.keys() & second.by_step.keys()
    assert {step: first.by_step[step] for step in common} == {step: second.by_step[step] for step in common}
    assert len(common) == 4


def test_training_that_ended_starts_the_input_afresh(tmp_path):
    losses = Losses()
    est = estimator(tmp_path)
    est.train(dataset, hooks=[losses], steps=3)
    assert read_metadata(est.latest_checkpoint())["ended"] is True
    est.train(dataset, hooks=[losses])
    assert max(losses.by_step) == 3 + COUNT // 8


def test_steps_add_up_and_max_steps_is_absolute(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    est = estimator(tmp_path)
    est.train(train_input, steps=5).train(train_input, steps=5).train(train_input, max_steps=12)
    assert est.evaluate(dataset)["global_step"] == 12
    est.train(train_input, max_steps=12)
    assert "Skipping training since max_steps has already saved." in caplog.messages
    est.train(train_input, max_steps=13.25).train(train_input, steps=1.5)  # as of examples / batch_size
    assert est.evaluate(dataset, steps=0.5)["global_step"] == 16


def test_a_strategy_of_ones_own(tmp_path):
    est = estimator(tmp_path, train_distribute=OneDeviceStrategy("/cpu:0"))
    seen = []

    def input_fn(mode, params, config, input_context):
        seen.append((mode, params, config is est.config, input_context.num_input_pipelines))
        return train_input()

    est.train(input_fn, steps=2)
    assert seen == [(ModeKeys.TRAIN, {}, True, 1)]


def test_evaluation_leaves_the_model_and_the_batch_metrics_alone(tmp_path):
    est = estimator(tmp_path)
    est.train(train_input, steps=10)
    first = est.evaluate(dataset)
    assert est.evaluate(dataset) == first
    assert est.evaluate(dataset, steps=3)["loss"] != first["loss"]
    assert est.evaluate(dataset, checkpoint_path=str(tmp_path / "ckpt-0"))["global_step"] == 0


def test_a_seed_makes_runs_the_same(tmp_path):
    def random_start(features, labels, mode):
        loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
        train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def kernel(name, seed):
        est = estimator(tmp_path / name, random_start, tf_random_seed=seed)
        return est.train(train_input, steps=1).get_variable_value("dense/kernel").tolist()

    assert kernel("a", 1) == kernel("b", 1) != kernel("c", 2)


def test_a_seed_orders_shuffles_that_have_none(tmp_path):
    shuffled = lambda: Dataset.from_tensor_slices((FEATURES, LABELS)).shuffle(64).batch(8)  # noqa: E731

    def losses(name, seed):
        hook = Losses()
        estimator(tmp_path / name, tf_random_seed=seed).train(shuffled, hooks=[hook])
        return hook.by_step

    assert losses("a", 1) == losses("b", 1) != losses("c", 2)


def test_warm_start(tmp_path):
    source = estimator(tmp_path / "source")
    source.train(train_input, steps=50)
    weights = source.get_variable_value("w")
    started = Estimator(model_fn, tmp_path / "all", warm_start_from=str(tmp_path / "source"))
    started.train(train_input, steps=1)
    assert np.abs(started.get_variable_value("w") - weights).max() < 0.1
    assert started.latest_checkpoint().endswith("ckpt-1")
    parts = []
    for number, pattern in enumerate(("b", "b[^/]")):  # TensorFlow's name is "b:0", which both match
        only_b = WarmStartSettings(
            ckpt_to_initialize_from=source.latest_checkpoint(), vars_to_warm_start=pattern
        )
        part = Estimator(model_fn, tmp_path / f"part {number}", warm_start_from=only_b)
        part.train(train_input, steps=1)
        assert np.abs(part.get_variable_value("w")).max() < 0.2
        parts.append(part.get_variable_value("b"))
    assert parts[0] == parts[1] != 0
    wrong = WarmStartSettings(
        ckpt_to_initialize_from=source.latest_checkpoint(), var_name_to_prev_var_name={"w": "nothing"}
    )
    with pytest.raises(muster.CheckpointMismatchError, match="'nothing' is wanted"):
        Estimator(model_fn, tmp_path / "wrong", warm_start_from=wrong).train(train_input, steps=1)


def test_what_a_model_fn_logs_and_summarizes(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    from muster.program import summary_scalar

    def logging_model(features, labels, mode):
        spec = model_fn(features, labels, mode)
        double = spec.loss * 2
        summary_scalar("double", double)
        hook = LoggingTensorHook({"twice": double}, every_n_iter=1)
        return spec._replace(training_hooks=[hook])

    estimator(tmp_path, logging_model, save_summary_steps=1).train(train_input, steps=2)
    lines = [m for m in caplog.messages if m.startswith("twice = ")]
    assert len(lines) == 2
    loss = {e.step: e.value for e in read_events(tmp_path) if e.tag == "loss"}
    double = {e.step: e.value for e in read_events(tmp_path) if e.tag == "double"}
    assert set(double) == {1, 2}
    assert double[2] == pytest.approx(2 * loss[2])


def test_predictions_by_key_and_in_batches(tmp_path):
    est = estimator(tmp_path)
    est.train(train_input, steps=1)
    batches = list(est.predict(dataset, yield_single_examples=False))
    assert [b["y"].shape for b in batches] == [(8, 1)] * 8
    assert set(next(est.predict(dataset, predict_keys="y"))) == {"y"}
    with pytest.raises(ValueError, match=r"Expected to run at least one output from .*provided \['z'\]"):
        next(est.predict(dataset, predict_keys=["z"]))


def test_several_input_shapes_in_one_training(tmp_path):
    losses = Losses()
    estimator(tmp_path).train(lambda: dataset(10), hooks=[losses])  # 6 batches of 10, one of 4
    assert sorted(losses.by_step) == list(range(1, 8))


def test_eager_mode_sees_numbers_and_trains_the_same(tmp_path):
    traced, eager, seen = Losses(), Losses(), []

    def looking(features, labels, mode):
        spec = model_fn(features, labels, mode)
        try:
            seen.append(float(spec.loss))
        except TypeError:
            pass  # a tracer
        return spec

    estimator(tmp_path / "traced").train(train_input, hooks=[traced], steps=5)
    muster.config.run_functions_eagerly(True)
    try:
        estimator(tmp_path / "eager", looking).train(train_input, hooks=[eager], steps=5)
    finally:
        muster.config.run_functions_eagerly(False)
    np.testing.assert_allclose(list(eager.by_step.values()), list(traced.by_step.values()), rtol=1e-5)
    assert seen == pytest.approx(list(traced.by_step.values()), rel=1e-5)


# Bad input ------------------------------------------------------------------------------------------------


def returning(spec):
    return lambda features, labels, mode: spec(features, labels, mode)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (lambda f, y, m: 3, ValueError, "model_fn should return an EstimatorSpec.*returned: 3"),
        (lambda f, y, m: EstimatorSpec(m, train_op=muster.program.TrainOp("x")), ValueError, "Missing loss"),
        (lambda f, y, m: EstimatorSpec(m, loss=keras.ops.mean(f)), ValueError, "Missing train_op"),
        (lambda f, y, m: EstimatorSpec(m, loss=f, train_op=f), ValueError, "Loss must be scalar"),
        (
            lambda f, y, m: EstimatorSpec("eval", loss=keras.ops.mean(f)),
            ValueError,
            "called in the mode train, but returned the mode eval",
        ),
    ],
)
def test_a_model_fn_that_returns_the_wrong_thing(tmp_path, spec, error, message):
    with pytest.raises(error, match=message):
        estimator(tmp_path, returning(spec)).train(train_input, steps=1)


def test_a_model_fn_that_builds_other_variables_the_second_time(tmp_path):
    sizes = iter((3, 4, 5))

    def growing(features, labels, mode):
        hidden = keras.layers.Dense(next(sizes))(features)
        loss = keras.ops.mean((keras.layers.Dense(1)(hidden) - labels) ** 2)
        train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(muster.VariableMismatchError, match=r"dense/kernel float32\[2, 4\].*float32\[2, 3\]"):
        estimator(tmp_path, growing).train(train_input, steps=3)


def test_a_model_fn_that_uses_variables_built_outside(tmp_path):
    outside = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    def reusing(features, labels, mode):
        loss = keras.ops.mean((outside(features) - labels) ** 2)
        return EstimatorSpec(mode, loss=loss, train_op=loss)

    with pytest.raises(muster.OutsideVariableError, match="kernel.*built outside"):
        estimator(tmp_path, reusing).train(train_input, steps=1)


def test_features_and_labels_of_different_length(tmp_path):
    def input_fn():
        return Dataset.from_tensor_slices((FEATURES, LABELS[:-1]))

    with pytest.raises(ValueError, match="64.*63|63.*64"):
        estimator(tmp_path).train(input_fn, steps=1)
    with pytest.raises(muster.DatasetError, match="features has 64, labels has 63 examples"):
        estimator(tmp_path).train(lambda: (FEATURES, LABELS[:-1]), steps=1)


@pytest.mark.parametrize(
    "input_fn",
    [lambda: dataset().take(0), lambda: Dataset.from_tensor_slices((FEATURES, LABELS)).batch(65, True)],
    ids=["empty", "batch larger than the data"],
)
def test_no_batch_at_all(tmp_path, input_fn):
    est = estimator(tmp_path)
    with pytest.raises(muster.DatasetError, match="for train gave no batch.*may be larger than the data"):
        est.train(input_fn, steps=1)
    with pytest.raises(muster.DatasetError, match="for eval gave no batch"):
        est.evaluate(input_fn)
    assert not list_checkpoints(tmp_path)


def test_a_batch_size_larger_than_the_data_gives_one_batch(tmp_path):
    losses = Losses()
    estimator(tmp_path).train(lambda: dataset(1000), hooks=[losses])
    assert list(losses.by_step) == [1]


def test_texts_and_triples_and_numbers(tmp_path):
    def texts():
        return Dataset.from_tensor_slices(({"city": np.array(["a", "b"])}, np.zeros(2))).batch(2)

    with pytest.raises(muster.DatasetError, match=r"features\['city'\] is text"):
        estimator(tmp_path).train(texts, steps=1)
    with pytest.raises(ValueError, match="len 2 tuple.*length 3"):
        estimator(tmp_path).train(lambda: Dataset.from_tensors((FEATURES, LABELS, LABELS)), steps=1)
    with pytest.raises(TypeError, match="must return a Dataset.*got int: 1"):
        estimator(tmp_path).train(lambda: 1, steps=1)


def test_a_nan_loss_ends_training_before_it_is_saved(tmp_path):
    bad = LABELS.copy()
    bad[40:] = np.nan

    def input_fn():
        return Dataset.from_tensor_slices((FEATURES, bad)).batch(8)

    with pytest.raises(muster.NanLossDuringTrainingError):
        estimator(tmp_path, save_checkpoints_steps=1).train(input_fn)
    assert max(info.step for info in list_checkpoints(tmp_path)) == 5


def test_a_model_dir_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(muster.CheckpointError, match="cannot be written"):
        estimator(tmp_path / "file" / "dir").train(train_input, steps=1)


def test_training_beside_parameter_servers_is_that_of_train_and_evaluate(tmp_path, monkeypatch):
    cluster = {job: [f"localhost:{port}"] for port, job in enumerate(("chief", "worker", "ps"), 1)}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(muster.ClusterError, match=r"servers of the .* Call train_and_evaluate\(est"):
        estimator(tmp_path).train(train_input, steps=1)


def test_a_checkpoint_of_another_model(tmp_path):
    estimator(tmp_path).train(train_input, steps=1)

    def other(features, labels, mode):
        loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
        w = keras.Variable(np.zeros((3, 1), np.float32), name="w")
        train_op = muster.minimize(
            keras.optimizers.Adam(), loss + 0 * keras.ops.sum(w), muster.get_or_create_global_step()
        )
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    before = os.listdir(tmp_path)
    with pytest.raises(muster.CheckpointMismatchError) as info:
        estimator(tmp_path, other).train(train_input, steps=1)
    message = str(info.value)
    assert "It lacks: dense/kernel float32[2, 1]" in message
    assert "differs in shape in: w float32[3, 1] (the checkpoint has [2, 1])" in message
    assert "does not have its: b, " in message
    assert os.listdir(tmp_path) == before


def test_generators_that_the_checkpoint_lacks_start_afresh(tmp_path):
    """Such as the noise of predictions alone, dropout in evaluation, and a layer that came later."""

    def noisy(features, labels, mode, params):
        spec = model_fn(features, labels, mode)
        if mode not in params["modes"]:
            return spec
        generator = keras.random.SeedGenerator(1)
        noise = keras.random.normal(keras.ops.shape(features)[:1], seed=generator)
        if mode == ModeKeys.PREDICT:
            return spec._replace(predictions={**spec.predictions, "noise": noise})
        error = keras.metrics.Mean(name="noise")
        error.update_state(noise)
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), "noise": error})

    def run(*modes):
        return Estimator(noisy, str(tmp_path), RunConfig(tf_random_seed=3), params={"modes": modes})

    run().train(train_input, steps=1)
    later = run(ModeKeys.EVAL, ModeKeys.PREDICT)
    first = later.evaluate(dataset, steps=2)
    assert later.evaluate(dataset, steps=2) == first
    assert first["noise"] != 0
    noise = [each["noise"] for each in later.predict(lambda: Dataset.from_tensor_slices(FEATURES).batch(10))]
    assert len(set(map(float, noise))) == len(FEATURES)
    all_modes = run(*ModeKeys)
    all_modes.train(train_input, steps=1)
    assert all_modes.evaluate(dataset, steps=2)["global_step"] == 2
    all_modes.train(train_input, steps=1)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, caplog):
    est = estimator(tmp_path, save_checkpoints_steps=5)
    est.train(train_input, steps=10)
    data = next((tmp_path / "ckpt-10").glob("*.safetensors"))
    data.write_bytes(data.read_bytes()[:-4] + b"oops")
    losses = Losses()
    est.train(train_input, hooks=[losses], max_steps=10)
    assert sorted(losses.by_step) == [6, 7, 8, 9, 10]
    assert any("ckpt-10 is damaged and was skipped" in m and "ckpt-5" in m for m in caplog.messages)


def test_a_damaged_newest_checkpoint_does_not_end_train_and_evaluate(tmp_path):
    est = estimator(tmp_path, save_checkpoints_steps=5)
    est.train(train_input, steps=20)
    data = next((tmp_path / "ckpt-20").glob("*.safetensors"))
    data.write_bytes(data.read_bytes()[:-4] + b"oops")
    metrics, _ = train_and_evaluate(
        est, TrainSpec(train_input, max_steps=18), EvalSpec(dataset, throttle_secs=0)
    )
    assert metrics["global_step"] == 18
    assert (tmp_path / "ckpt-20.damaged").is_dir()
    assert est.latest_checkpoint().endswith("ckpt-18")


def test_an_evaluation_that_failed_at_the_end_of_the_input_is_made_up_for(tmp_path):
    def broken():
        raise LookupError("not now")

    est = estimator(tmp_path, save_checkpoints_steps=100)
    with pytest.raises(LookupError):
        train_and_evaluate(est, TrainSpec(dataset), EvalSpec(broken, throttle_secs=0))
    metrics, _ = train_and_evaluate(est, TrainSpec(dataset), EvalSpec(dataset, throttle_secs=0))
    assert metrics["global_step"] == COUNT // 8
    metrics, _ = train_and_evaluate(est, TrainSpec(dataset), EvalSpec(dataset, throttle_secs=0))
    assert metrics["global_step"] == 2 * COUNT // 8  # the next pass over the input


def test_later_batches_whose_lengths_differ(tmp_path):
    def uneven():
        yield FEATURES[:8], LABELS[:8]
        yield FEATURES[:8], LABELS[:1]

    spec = (muster.data.TensorSpec((None, 2), "float32"), muster.data.TensorSpec((None, 1), "float32"))
    with pytest.raises(muster.DatasetError, match="features has 8, labels has 1 examples"):
        estimator(tmp_path).train(lambda: Dataset.from_generator(uneven, output_signature=spec))


def test_a_metric_added_to_training_later_starts_afresh(tmp_path):
    def without(features, labels, mode):
        w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
        b = keras.Variable(np.zeros(1, np.float32), name="b")
        loss = keras.ops.mean((features @ w + b - labels) ** 2)
        train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator(tmp_path, without).train(train_input, steps=1)
    assert estimator(tmp_path).train(train_input, steps=1).latest_checkpoint().endswith("ckpt-2")


def test_a_model_fn_that_never_advances_the_global_step_is_told(tmp_path, caplog):
    def still(features, labels, mode):
        w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
        loss = keras.ops.mean((features @ w - labels) ** 2)
        return EstimatorSpec(mode, loss=loss, train_op=muster.minimize(keras.optimizers.SGD(0.1), loss))

    estimator(tmp_path, still).train(dataset)
    assert any("never advances the global step" in message for message in caplog.messages)
    for limit in ({"steps": 3}, {"max_steps": 3}, {"hooks": [StopAtStepHook(3)]}):
        with pytest.raises(muster.TraceError, match="After 3 steps .* still 0.*Pass global_step="):
            estimator(tmp_path, still).train(train_input, **limit)


def test_a_full_disk(tmp_path, monkeypatch):
    est = estimator(tmp_path, save_checkpoints_steps=5)
    est.train(train_input, steps=5)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("muster.checkpoint._write.write_arrays", full)
    with pytest.raises(muster.CheckpointError, match="was not written: No space left on device"):
        est.train(train_input, steps=5)
    assert est.latest_checkpoint().endswith("ckpt-5")
    monkeypatch.undo()
    assert est.train(train_input, max_steps=10).evaluate(dataset)["global_step"] == 10


def test_an_input_fn_that_raises(tmp_path):
    def broken():
        raise LookupError("no data today")

    with pytest.raises(LookupError, match="no data today"):
        estimator(tmp_path).train(broken, steps=1)

    def breaks_off():
        yield FEATURES[:8], LABELS[:8]
        raise LookupError("the rest is missing")

    spec = (muster.data.TensorSpec((8, 2), "float32"), muster.data.TensorSpec((8, 1), "float32"))
    with pytest.raises(LookupError, match="the rest is missing"):
        estimator(tmp_path).train(lambda: Dataset.from_generator(breaks_off, output_signature=spec), steps=5)


def test_training_and_evaluating_in_turn(tmp_path):
    metrics, exports = train_and_evaluate(
        estimator(tmp_path, save_checkpoints_steps=10),
        TrainSpec(train_input, max_steps=20),
        EvalSpec(dataset, throttle_secs=0),
    )
    assert metrics["global_step"] == 20
    assert exports == []
    assert {e.step for e in read_events(tmp_path / "eval") if e.tag == "loss"} == {10, 20}


class Told(CheckpointSaverListener):
    """Keeps the steps of the checkpoints that it is told of."""

    def __init__(self):
        self.steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(global_step_value)


def steps_in(directory):
    return [info.step for info in list_checkpoints(directory)]


@pytest.mark.parametrize(
    ("hook_in", "period", "in_model_dir", "told"),
    [
        ("backup", 4, [0, 4, 6], [0, 4, 6]),
        ("backup", None, [], [0, 3, 6]),
        ("model/../model", 4, [0, 3, 6], [0, 3, 6]),
    ],
)
def test_a_savers_directory(tmp_path, hook_in, period, in_model_dir, told):
    """Beside the Estimator's, whose saver it replaces where it is the same; the listeners hear of one."""
    model_dir, listener = tmp_path / "model", Told()
    model_dir.mkdir()
    saver = CheckpointSaverHook(tmp_path / hook_in, save_steps=3)
    est = estimator(model_dir, save_checkpoints_steps=period, save_checkpoints_secs=None)
    est.train(train_input, steps=6, hooks=[saver], saving_listeners=[listener])
    assert steps_in(model_dir) == in_model_dir
    assert steps_in(tmp_path / hook_in) == [0, 3, 6]
    assert listener.steps == told
    found = restore_latest(tmp_path / hook_in)
    assert found.metadata["ended"]
    if in_model_dir:
        np.testing.assert_array_equal(found.variables["w"], est.get_variable_value("w"))


def test_what_a_saver_cannot_do_is_said_once(tmp_path, caplog):
    CheckpointSaverHook(tmp_path, save_steps=1, checkpoint_basename="model.ckpt", save_graph_def=True)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "Checkpoints are called ckpt-<step>, and not 'model.ckpt', so that readers find them.",
        "There is no graph for save_graph_def to save: keras.Model.export writes programs.",
    ]


@pytest.mark.samples("evaluate")
@pytest.mark.parametrize("call", ["train", "evaluate", "predict"])
def test_calls_leave_no_traces_behind(tmp_path, call):
    """JAX keeps the traces of each call of einsum, and with each a signature."""

    def model(features, labels, mode):
        w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
        y = keras.ops.einsum("ij,jk->ik", features, w)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions=y)
        loss = keras.ops.mean((y - labels) ** 2)
        train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    trained = estimator(tmp_path, model).train(train_input, steps=1)
    calls = {
        "train": lambda: trained.train(train_input, steps=1),
        "evaluate": lambda: trained.evaluate(dataset),
        "predict": lambda: list(trained.predict(dataset)),
    }

    def traces_after(count):
        for _ in range(count):
            calls[call]()
        gc.collect()
        return sum(type(each) is inspect.Signature for each in gc.get_objects())

    traces_after(2)
    assert traces_after(2) >= traces_after(3)


def test_a_model_fn_may_change_what_that_of_another_estimator_returns(tmp_path):
    inner = estimator(tmp_path)

    def with_twice(features, labels, mode, config):
        spec = inner._call_model_fn(features, labels, mode, config=config)
        if mode == ModeKeys.PREDICT:
            spec = spec._replace(predictions={**spec.predictions, "twice": spec.predictions["y"] * 2})
        return spec

    outer = Estimator(with_twice, config=inner.config).train(train_input, steps=2)
    given = next(outer.predict(lambda: Dataset.from_tensor_slices(FEATURES).batch(10)))
    assert given["twice"] == 2 * given["y"]


def test_functions_may_change_their_params(tmp_path):
    def changing(features, labels, mode, params):
        params["rate"]["of"] /= 10
        assert params.pop("width") == 1
        return model_fn(features, labels, mode)

    def input_fn(params):
        params["batch"] //= 2
        return dataset(params["batch"])

    params = {"rate": {"of": 1.0}, "width": 1, "batch": 8}
    est = Estimator(changing, str(tmp_path), params=params)
    for _ in range(2):
        est.train(input_fn)
    assert est.params == params == {"rate": {"of": 1.0}, "width": 1, "batch": 8}
    assert int(est.get_variable_value("global_step")) == 2 * COUNT // 4


def counting_rows(features, labels, mode):
    rows = keras.metrics.Sum(name="rows")
    rows.update_state(keras.ops.ones_like(labels))
    muster.program.name_output("seen", rows.result())
    return model_fn(features, labels, mode)


class SeenRows(SessionRunHook):
    def __init__(self):
        self.seen = []

    def end(self, session):
        self.seen.append(int(session.run("seen")))


def test_metrics_of_training_go_on_after_an_interruption_alone(tmp_path):
    est, rows = Estimator(counting_rows, str(tmp_path)), SeenRows()
    with pytest.raises(InterruptedError):
        est.train(
            train_input, steps=4, hooks=[StopAfter(2), CheckpointSaverHook(str(tmp_path), save_steps=2)]
        )
    est.train(train_input, max_steps=4, hooks=[rows])
    est.train(train_input, max_steps=6, hooks=[rows])
    assert rows.seen[0] == 2 * rows.seen[1]


class Fails(SessionRunHook):
    """Breaks off in an evaluation of a step, once."""

    def __init__(self, step):
        self.step = step

    def after_run(self, run_context, run_values):
        if run_context.session.global_step == self.step:
            self.step = None
            raise InterruptedError("crash")


def test_an_evaluation_of_the_last_step_that_was_broken_off_is_made_up(tmp_path):
    est = Estimator(model_fn, str(tmp_path))
    specs = (
        TrainSpec(train_input, max_steps=4),
        EvalSpec(dataset, hooks=[Fails(4)], throttle_secs=0),
    )
    with pytest.raises(InterruptedError):
        train_and_evaluate(est, *specs)
    metrics, _ = train_and_evaluate(est, *specs)
    assert metrics["global_step"] == 4
    assert train_and_evaluate(est, *specs) == (None, None)
