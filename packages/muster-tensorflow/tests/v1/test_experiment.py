"""Experiments: what each schedule does, in one process."""

import pytest
from line_models import dataset, model_fn, train_input

from muster.estimator import Estimator, Exporter, RunConfig, SessionRunHook
from muster.summary import read_events
from muster_tensorflow.contrib.learn import Experiment, learn_runner


class Steps(SessionRunHook):
    def __init__(self):
        self.seen = []

    def after_run(self, run_context, run_values):
        self.seen.append(run_context.session.global_step)


class Notes(Exporter):
    name = "notes"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        return export_path, eval_result["global_step"]


def experiment(config, hparams=None, **options):
    options = {"train_steps": 10, "eval_steps": 4, "eval_delay_secs": 0} | options
    return Experiment(Estimator(model_fn, config=config), train_input, dataset, **options)


@pytest.fixture
def config(tmp_path):
    return RunConfig(str(tmp_path), save_checkpoints_steps=5)


def evaluated(config, name):
    return [event.step for event in read_events(f"{config.model_dir}/eval_{name}") if event.tag == "loss"]


def test_train_stops_at_its_step_and_evaluations_follow(config):
    steps = Steps()
    trained = experiment(config, train_monitors=[steps])
    trained.train()
    assert steps.seen == list(range(1, 11))
    assert trained.evaluate(name="once")["global_step"] == 10
    assert evaluated(config, "once") == [10]
    trained.continuous_eval()
    trained.continuous_eval_on_train_data(throttle_delay_secs=0)
    assert evaluated(config, "continuous") == evaluated(config, "continuous_on_train_data") == [10]


def test_a_predicate_ends_evaluation(config):
    experiment(config).train()
    seen = []

    def goes_on(metrics):
        seen.append(metrics and metrics["global_step"])
        return len(seen) < 2

    experiment(config, train_steps=20, continuous_eval_throttle_secs=0).continuous_eval(
        continuous_eval_predicate_fn=goes_on
    )
    assert seen[0] is None


def test_test_tries_all_parts_once(config):
    hook = Steps()
    tried = experiment(config, export_strategies=Notes())
    tried.extend_train_hooks([hook])
    metrics, exports = tried.test()
    assert hook.seen == [1]
    assert metrics["global_step"] == 1
    assert exports == [(f"{config.model_dir}/export/notes", 1)]


def test_training_and_evaluation_by_turns(config):
    hook = Steps()
    by_turns = {"train_steps": 7, "train_steps_per_iteration": 4, "train_monitors": [hook]}
    metrics, exports = experiment(config, export_strategies=Notes(), **by_turns).continuous_train_and_eval()
    # As in TensorFlow the last turn is a whole one.
    assert hook.seen == list(range(1, 9))
    assert metrics["global_step"] == 8
    assert exports == [(f"{config.model_dir}/export/notes", 8)]
    assert evaluated(config, "one_pass") == [4, 8]
    last = experiment(config, train_steps=50).continuous_train_and_eval(lambda metrics: metrics is None)
    assert last[0]["global_step"] == 13


def test_the_default_schedule_trains_and_evaluates(config):
    metrics, exports = learn_runner.run(experiment, run_config=config)
    assert metrics["global_step"] == 10
    assert exports == []


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda config: learn_runner.run("x", run_config=config), TypeError, "is not callable"),
        (lambda config: learn_runner.run(experiment), ValueError, "Must specify `model_dir`"),
        (
            lambda config: learn_runner.run(experiment, run_config="x"),
            TypeError,
            "must be a RunConfig, got 'x'",
        ),
        (
            lambda config: learn_runner.run(lambda a, b: 3, run_config=config),
            TypeError,
            "Experiment instance, got 3",
        ),
        (
            lambda config: learn_runner.run(experiment, schedule="fly", run_config=config),
            ValueError,
            "no schedule 'fly'.*train",
        ),
        (lambda config: Experiment("x", None, None), ValueError, "must be a muster.estimator.Estimator, got"),
        (
            lambda config: learn_runner.run(experiment, "folder", run_config=config),
            ValueError,
            "Cannot provide both `output_dir` and `run_config`",
        ),
    ],
)
def test_what_is_wrong_is_named(config, call, error, says):
    with pytest.raises(error, match=says):
        call(config)


@pytest.mark.parametrize(("frequency", "steps"), [(0, [20]), (1, [5, 10, 15, 20]), (10, [5, 15, 20])])
def test_evaluations_are_some_steps_apart(config, frequency, steps):
    tried = experiment(config, train_steps=20, min_eval_frequency=frequency)
    tried.train_and_evaluate()
    seen = [e.step for e in read_events(f"{config.model_dir}/eval") if e.tag == "loss"]
    assert seen == steps
