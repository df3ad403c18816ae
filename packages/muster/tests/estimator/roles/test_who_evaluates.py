"""Who evaluates is decided in one place, for jobs of every shape, and one task at a time does."""

import contextlib
import json

import pytest

from muster._errors import DirectoryInUseError
from muster.checkpoint import Lease, WriterWatch
from muster.estimator import RunConfig
from muster.estimator.roles._continuous_eval import ContinuousEvalListener, EvalResult, EvaluationListener
from muster.estimator.roles._who_evaluates import Evaluates, UntilEvaluator, as_evaluator, evaluates
from muster.summary import EventFileWriter

A = [f"localhost:{port}" for port in range(1, 9)]
CHIEF, WORKERS, PS, EVALUATOR = {"chief": A[:1]}, {"worker": A[1:3]}, {"ps": A[3:4]}, {"evaluator": A[4:5]}
N, UNTIL, ALWAYS = Evaluates.NEVER, Evaluates.UNLESS_EVALUATOR, Evaluates.ALWAYS
# (cluster, task, whether workers train in step, who evaluates)
SHAPES = [
    ({}, None, False, ALWAYS),
    (CHIEF, ("chief", 0), False, N),
    (CHIEF, ("chief", 0), True, UNTIL),
    (CHIEF, ("evaluator", 0), False, ALWAYS),
    (CHIEF | EVALUATOR, ("chief", 0), True, N),
    (CHIEF | WORKERS, ("chief", 0), True, UNTIL),
    (CHIEF | WORKERS, ("worker", 0), True, N),
    (CHIEF | WORKERS, ("worker", 1), True, N),
    (CHIEF | WORKERS, ("evaluator", 0), True, ALWAYS),
    (CHIEF | WORKERS | EVALUATOR, ("chief", 0), True, N),
    (CHIEF | WORKERS | EVALUATOR, ("evaluator", 0), True, ALWAYS),
    (WORKERS, ("worker", 0), True, UNTIL),
    (WORKERS, ("worker", 1), True, N),
    (WORKERS | EVALUATOR, ("worker", 0), True, N),
    (CHIEF | WORKERS | PS, ("chief", 0), False, N),
    (CHIEF | WORKERS | PS, ("worker", 1), False, N),
    (CHIEF | WORKERS | PS, ("evaluator", 0), False, ALWAYS),
    (CHIEF | WORKERS | PS | EVALUATOR, ("chief", 0), False, N),
    ({"master": A[:1]} | WORKERS | PS, ("master", 0), False, ALWAYS),
    ({"master": A[:1]} | WORKERS | PS, ("worker", 0), False, N),
]


@pytest.mark.parametrize(("cluster", "task", "in_step", "expected"), SHAPES)
def test_who_evaluates(monkeypatch, cluster, task, in_step, expected):
    config = {"cluster": cluster}
    if task:
        config["task"] = {"type": task[0], "index": task[1]}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert evaluates(RunConfig(), in_step=in_step) is expected


def never(secs):
    pytest.fail("nobody is waited for")


def test_a_chief_leaves_evaluations_to_an_evaluator_that_comes(tmp_path, caplog):
    caplog.set_level("INFO")
    right = UntilEvaluator(str(tmp_path / "eval"))
    right.announce()
    assert "There is no evaluator task" in caplog.text
    with right.taken(2, is_last=False) as taken:
        assert taken
    with as_evaluator(str(tmp_path / "eval"), never):
        for step, is_last in ((4, False), (6, True)):
            with right.taken(step, is_last=is_last) as taken:
                assert not taken
    assert caplog.text.count("The evaluator task evaluates the checkpoints of this job.") == 1
    with right.taken(8, is_last=False) as taken:
        assert not taken  # it may be started again
    with right.taken(8, is_last=True) as taken:
        assert taken  # the last step counts: the evaluator is gone, and has not evaluated it
    with EventFileWriter(tmp_path / "eval") as writer:
        writer.add_scalars({"loss": 1.0}, 10)
    with right.taken(10, is_last=True) as taken:
        assert not taken


def test_an_evaluator_waits_for_the_evaluation_that_runs(tmp_path):
    right, waits = UntilEvaluator(str(tmp_path)), []
    with contextlib.ExitStack() as chiefs:
        assert chiefs.enter_context(right.taken(2, is_last=False))

        def pause(secs):
            waits.append(WriterWatch(tmp_path, "evaluator.lock").is_writing())
            chiefs.close()

        with as_evaluator(str(tmp_path), pause), pytest.raises(DirectoryInUseError):
            Lease(str(tmp_path))
    assert waits == [True]  # the chief knows of it meanwhile


def test_a_second_evaluator_is_refused(tmp_path):
    with as_evaluator(str(tmp_path), never), pytest.raises(DirectoryInUseError):
        with as_evaluator(str(tmp_path), never):
            pass


class Counts:
    def __init__(self):
        self.steps = 0

    def evaluate_and_export(self):
        self.steps += 1
        return EvalResult("evaluated", {"global_step": self.steps}, "ckpt"), []


def test_training_goes_on_where_another_evaluates(tmp_path):
    evaluator = Counts()
    listener = EvaluationListener(evaluator, 0, ContinuousEvalListener(), right=UntilEvaluator(str(tmp_path)))
    listener.after_save(None, 0)
    assert listener.after_save(None, 2) is None
    assert evaluator.steps == 1
    with as_evaluator(str(tmp_path), never):
        assert listener.after_save(None, 4) is None
        listener.end(None, 6)
    assert evaluator.steps == 1
    assert listener.eval_result.metrics == {"global_step": 1}
