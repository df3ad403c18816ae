"""When an evaluator without a new checkpoint warns."""

import logging

import pytest

from muster.estimator import EvalSpec
from muster.estimator.roles._continuous_eval import NO_NEW_CHECKPOINT, Evaluator
from muster.estimator.session import clock


class Untrained:
    """An Estimator whose checkpoint comes when it is set."""

    model_dir = ""
    newest = None

    def latest_checkpoint(self):
        return self.newest

    def evaluate(self, input_fn, **options):
        return {"global_step": 1, "loss": 0.0}


def warnings_at(evaluator, times, monkeypatch, caplog):
    """The times at which an attempt to evaluate logs a warning."""
    warned = []
    for now in times:
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        caplog.clear()
        evaluator.evaluate_and_export()
        warned += [now for record in caplog.records if record.levelno >= logging.WARNING]
    return warned


@pytest.mark.parametrize("comes", [False, True])
def test_it_warns_when_there_is_nothing_new_for_ten_minutes_and_not_more_often(monkeypatch, caplog, comes):
    monkeypatch.setattr(clock, "now", lambda: 0.0)
    estimator = Untrained()
    evaluator = Evaluator(estimator, EvalSpec(lambda: None), None)
    if comes:
        estimator.newest = "ckpt-1"
        evaluator.evaluate_and_export()
    caplog.set_level(logging.INFO, "muster")
    times = [1.0, 10.0, 300.0, 600.0, 601.0, 900.0, 1201.0, 1202.0]
    assert warnings_at(evaluator, times, monkeypatch, caplog) == [601.0, 1202.0]
    assert (evaluator.evaluate_and_export()[0].status == NO_NEW_CHECKPOINT) == comes
