"""Programs under ``muster run`` that name no strategy: joined, where that can be, or told what to write."""

import re
from pathlib import Path

import pytest

from repository import ROOT

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("joining_child.py")
JOB_DEADLINE = 150.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "how"),
    [("fit", "without a strategy"), ("mirrored", "by MirroredStrategy, which is for one process")],
)
def test_fit_that_joins_nobody_is_told_which_line_to_add(launch, tmp_path, what, how):
    job = launch(what, tmp_path, options=["--workers", "2", "--evaluator"], program=CHILD)
    assert job.end(JOB_DEADLINE) == 0
    for index in (0, 1):
        told = [line for line in job.lines if line.startswith(f"worker {index}    | ")]
        assert f"worker {index} trains a model of its own: TF_CONFIG names 2 tasks that train" in told[0]
        assert how in told[0]
        assert "strategy = muster.distribute.MultiWorkerMirroredStrategy()" in told[0]
        assert len(told) == 1  # although it fits twice
    assert not [line for line in job.lines if line.startswith("evaluator 0 | ")]
    assert "muster      | worker 0 and worker 1 have ended without having joined each other." in job.text


@pytest.mark.samples("options3-steps3")
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (["--workers", "1"], {"worker 0": 20}),
        (["--workers", "2"], {"worker 0": 20, "worker 1": None}),
        (["--chief", "--workers", "1"], {"chief 0": 20, "worker 0": None}),
        (
            ["--workers", "2", "--evaluator"],
            {"worker 0": None, "worker 1": None, "evaluator 0": 20},
        ),
    ],
)
def test_an_estimator_without_a_strategy_trains_with_all_workers(launch, tmp_path, options, steps):
    job = launch("estimator", tmp_path / "model", options=options, program=CHILD)
    assert job.end(JOB_DEADLINE) == 0, job.text
    told = {}
    for line in job.lines:
        task, _, text = line.partition(" | ")
        if text.startswith("evaluated "):
            told[task.strip()] = text
    exports = {task: "None" if step is None else "[]" for task, step in steps.items()}
    assert told == {task: f"evaluated {step} {exports[task]}" for task, step in steps.items()}
    workers = [task for task in steps if not task.startswith("evaluator")]
    took = [line for line in job.lines if "The Estimator has no strategy: it takes MultiWorkerM" in line]
    assert len(took) == (len(workers) if len(workers) > 1 else 0)
    assert "joined each other" not in job.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "tells"),
    [(["--workers", "2"], ["worker 0"]), (["--workers", "1", "--ps", "1"], [])],
    ids=["workers", "servers"],
)
def test_the_program_of_the_readme_is_a_job_as_it_is(launch, tmp_path, options, tells):
    """Tasks that have not evaluated get a pair of None, and fail at no line of it."""
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(from muster import .*?)```", readme, re.DOTALL)
    assert "metrics, _ = train_and_evaluate" in code
    program = tmp_path / "program.py"
    program.write_text(code.replace("max_steps=2000", "max_steps=20").replace("runs/", f"{tmp_path}/runs/"))
    job = launch(options=options, program=program)
    assert job.end(JOB_DEADLINE) == 0, job.text
    told = [line.partition(" | ")[0].strip() for line in job.lines if " | accuracy 0." in line]
    assert told == tells
    assert "Traceback" not in job.text


@pytest.mark.slow
def test_an_evaluator_evaluates_two_estimators_in_turn(launch, tmp_path):
    options = ["--workers", "1", "--evaluator"]
    job = launch("estimators", tmp_path / "models", options=options, program=CHILD)
    assert job.end(JOB_DEADLINE) == 0, job.text
    told = [line for line in job.lines if line.startswith("evaluator 0 | evaluated")]
    assert told == ["evaluator 0 | evaluated 20 []"] * 2
