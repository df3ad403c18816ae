"""`train_and_evaluate` in every combination of tasks, each started by hand with its TF_CONFIG."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from jobs import DEADLINE, SOON, Job
from large_data import copy_mnist
from muster import saved_model
from muster.checkpoint import list_checkpoints
from muster.summary import read_events
from repository import ROOT

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("role_child.py")
EXAMPLE = ROOT / "examples" / "mnist_estimator.py"
SAVES = [["listener", "begin"]]
for _step in (0, 2, 4):
    SAVES += [["listener", "before", _step], ["listener", "after", _step]]
SAVES += [["listener", "end at", 4]]
EVALUATES_ITSELF = "There is no evaluator task: the chief evaluates checkpoints, while the others wait."
LEAVES_IT = "The evaluator task evaluates the checkpoints of this job."


def run(folder, cluster, order, max_steps=4, **options):
    """Run a job; what each task has told, by name, and the tasks; the first waits for none."""
    names = [f"{kind} {index}" for kind, index in order]
    with Job(folder, [CHILD], **cluster) as job:
        for kind, index in order:
            told = str(folder / f"{kind}{index}.json")
            settings = {"model_dir": str(folder.parent / "model"), "told": told, "max_steps": max_steps}
            job.start(kind, index, {**settings, **options})
            lock, give_up = folder.parent / "model" / "eval" / "evaluator.lock", time.monotonic() + DEADLINE
            while kind == "evaluator" == order[0][0] and not lock.exists():
                assert time.monotonic() < give_up
                time.sleep(0.02)
        job.all_end_well()
    lines = [(folder / f"{kind}{index}.json").read_text().splitlines() for kind, index in order]
    told = [list(map(json.loads, each)) for each in lines]
    return dict(zip(names, told, strict=True)), dict(zip(names, job.tasks, strict=True))


def of(told, who):
    return [line for line in told if line[0] == who]


def hook(name, first, last):
    return [[name, "begin"], [name, "created at", first], [name, "end at", last]]


def check(told, tasks, chief, workers, first=0, last=4):
    """Check what the contract says of training tasks and of an evaluator."""
    for number, name in enumerate([chief, *workers]):
        lines = told[name]
        train = [line for line in of(lines, "input") if line[1] == "train"]
        count = len(workers) + 1
        assert train == [["input", "train", count, number, count]]
        if count > 1:
            shown = ", ".join(str(number + count * i) for i in range(3))
            assert tasks[name].log.count(f"{name} of {count} reads examples {shown}, … of 64.") == 1
        assert of(lines, "hook") == hook("hook", first, last)
        assert of(lines, "model's hook") == hook("model's hook", first, last)
        on_chief = hook("model's hook of the chief", first, last) if name == chief else []
        assert of(lines, "model's hook of the chief") == on_chief
        assert of(lines, "result") == [["result", [None, None]]]
        assert of(lines, "weights") == of(told[chief], "weights")
        if name != chief:
            assert of(lines, "listener") == of(lines, "eval hook") == []
            assert "There is no evaluator task" not in tasks[name].log
    if "evaluator 0" in told:
        lines = told["evaluator 0"]
        assert of(lines, "hook") == of(lines, "listener") == []
        assert {tuple(line) for line in of(lines, "input")} == {("input", "eval", 1, 0, 1)}
        assert of(lines, "eval hook")[-1] == ["eval hook", "end at", last]


def files(model_dir):
    """How many event files training has written, and the steps of the checkpoints."""
    return len(list(model_dir.glob("events*"))), [each.step for each in list_checkpoints(model_dir)]


@pytest.mark.parametrize(
    ("cluster", "order"),
    [
        ({"chief": 1, "worker": 1}, [("worker", 0), ("chief", 0)]),
        ({"worker": 2}, [("worker", 0), ("worker", 1)]),
    ],
    ids=["chief and worker", "two workers"],
)
def test_without_an_evaluator_the_chief_evaluates(tmp_path, cluster, order):
    chief = "chief 0" if "chief" in cluster else "worker 0"
    (worker,) = {f"{kind} {index}" for kind, index in order} - {chief}
    # A strategy for evaluations makes no difference: the workers wait while the chief evaluates.
    told, tasks = run(tmp_path / "first", cluster, order, eval_strategy=True)
    check(told, tasks, chief, [worker])
    assert EVALUATES_ITSELF in tasks[chief].log
    assert of(told[chief], "listener") == SAVES
    evaluated = [line for line in told[chief] if line[0] == "eval hook" or line[:2] == ["input", "eval"]]
    once = ["input", "eval", 1, 0, 1], ["eval hook", "begin"]
    assert evaluated == [
        *once,
        ["eval hook", "created at", 2],
        ["eval hook", "end at", 2],
        *once,
        ["eval hook", "created at", 4],
        ["eval hook", "end at", 4],
    ]
    assert files(tmp_path / "model") == (1, [0, 2, 4])
    assert [e.step for e in read_events(tmp_path / "model" / "eval") if e.tag == "loss"] == [2, 4]
    # All go on where the chief has saved, in whatever order they are started now.
    told, tasks = run(tmp_path / "second", cluster, order[::-1], max_steps=6)
    check(told, tasks, chief, [worker], first=4, last=6)
    assert files(tmp_path / "model") == (2, [0, 2, 4, 6])


@pytest.mark.parametrize(
    ("cluster", "order", "listed"),
    [
        ({"chief": 1, "worker": 1, "evaluator": 1}, [("evaluator", 0), ("worker", 0), ("chief", 0)], True),
        ({"worker": 2}, [("evaluator", 0), ("worker", 1), ("worker", 0)], False),
        ({"chief": 1, "worker": 1}, [("evaluator", 0), ("worker", 0), ("chief", 0)], False),
    ],
    ids=["in the cluster", "beside two workers", "beside chief and worker"],
)
@pytest.mark.samples("in the cluster", "beside two workers")
def test_an_evaluator_evaluates_and_the_chief_does_not(tmp_path, cluster, order, listed):
    chief = "chief 0" if "chief" in cluster else "worker 0"
    (worker,) = {f"{kind} {index}" for kind, index in order} - {chief, "evaluator 0"}
    told, tasks = run(tmp_path / "run", cluster, order, exports=True)
    check(told, tasks, chief, [worker])
    assert of(told[chief], "listener") == SAVES
    assert LEAVES_IT in tasks[chief].log
    assert EVALUATES_ITSELF not in tasks[chief].log
    assert of(told[chief], "eval hook") == of(told[chief], "export") == []
    assert of(told["evaluator 0"], "export")[-1] == ["export", 4, True]
    assert len(list((tmp_path / "model" / "eval").glob("events*"))) == 1
    assert "Exiting evaluation, global_step=4 >= train max_steps=4" in tasks["evaluator 0"].log
    assert files(tmp_path / "model") == (1, [0, 2, 4])


@pytest.mark.slow
def test_a_lone_evaluator_says_for_whom_it_waits_and_a_second_one_that_it_is_not_alone(tmp_path):
    settings = {"model_dir": str(tmp_path / "model"), "told": str(tmp_path / "told"), "max_steps": 4}
    with Job(tmp_path / "job", [CHILD], worker=2) as job:
        lone = job.start("evaluator", 0, settings)
        deadline = time.monotonic() + DEADLINE
        while "Nobody trains in" not in lone.log:
            assert lone.process.poll() is None, lone.log
            assert time.monotonic() < deadline, lone.log
            time.sleep(0.05)
        assert f"Nobody trains in {tmp_path / 'model'} now. Waiting 7200 s for it." in lone.log
        second = job.start("evaluator", 0, settings)
        assert second.code() == 1
        assert f"eval is being written by process {lone.process.pid} on" in second.last_line
        # To be interrupted is not to be done.
        lone.process.send_signal(signal.SIGINT)
        assert lone.code(SOON) == 130


@pytest.mark.slow
def test_an_evaluator_ends_with_training_whose_data_ends(tmp_path):
    """Also where an earlier job has left a checkpoint of training that has ended."""
    order = [("evaluator", 0), ("worker", 0), ("worker", 1)]
    for last in (4, 8):
        told, tasks = run(tmp_path / str(last), {"worker": 2}, order, max_steps=None, epochs=1)
        assert of(told["evaluator 0"], "eval hook")[-1] == ["eval hook", "end at", last]
        assert "Exiting evaluation, as training has ended" in tasks["evaluator 0"].log


@pytest.mark.slow
def test_a_chief_alone_and_an_evaluator(tmp_path):
    order = [("evaluator", 0), ("chief", 0)]
    told, tasks = run(tmp_path / "run", {"chief": 1, "evaluator": 1}, order)
    check(told, tasks, "chief 0", [])
    assert LEAVES_IT in tasks["chief 0"].log
    assert of(told["chief 0"], "eval hook") == []
    assert files(tmp_path / "model") == (1, [0, 2, 4])


@pytest.mark.slow
@pytest.mark.parametrize("evaluator", [True, False], ids=["by an evaluator", "by the chief"])
def test_models_are_exported(tmp_path, evaluator):
    cluster, order = {"chief": 1, "worker": 1}, [("worker", 0), ("chief", 0)]
    if evaluator:
        cluster["evaluator"] = 1
        order.append(("evaluator", 0))
    told, _ = run(tmp_path / "run", cluster, order, exports=True)
    exports = {task: [line[1:] for line in of(lines, "export")] for task, lines in told.items()}
    exporting = exports.pop("evaluator 0" if evaluator else "chief 0")
    assert exporting[-1] == [4, True]
    assert not any(final for _, final in exporting[:-1])
    assert not any(exports.values())
    (weights,) = of(told["chief 0"], "weights")
    for name in ("best", "final"):
        (folder,) = (tmp_path / "model" / "export" / name).iterdir()
        x = np.eye(2, dtype=np.float32)
        y = saved_model.load(folder).signatures["serving_default"](input=x)["y"]
        np.testing.assert_allclose(y[0] - y[1], weights[1][0] - weights[1][1], rtol=1e-5)


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Arguments of the guide's program, for a few steps on MNIST."""
    copy_mnist(tmp_path / "data")
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path / "data"))
    return ["--max-steps", "4", "--seed", "1", "--model-dir", str(tmp_path / "model")]


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_guides_program_as_two_workers_started_by_hand(tmp_path, mnist, order):
    with Job(tmp_path / "run", [EXAMPLE, *mnist], worker=2) as job:
        for index in order:
            job.start("worker", index)
        job.all_end_well()
    logs = {task.name: task.log for task in job.tasks}
    assert re.search(r"Saving dict for global step 4: accuracy = 0\.\d+", logs["worker 0"])
    assert "Saving dict" not in logs["worker 1"]
    for index in (0, 1):
        shown = f"worker {index} of 2 reads examples {index}, {index + 2}, {index + 4}, … of 20000."
        assert shown in logs[f"worker {index}"]
    assert files(tmp_path / "model")[1] == [0, 4]


@pytest.mark.slow
def test_the_guides_program_under_muster_run(tmp_path, mnist):
    command = ["run", "--workers", "2", "--log-dir", str(tmp_path / "logs"), str(EXAMPLE), *mnist]
    done = subprocess.run(
        [sys.executable, "-m", "muster", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"worker 0 .*Saving dict for global step 4: accuracy", done.stdout)
    assert files(tmp_path / "model")[1] == [0, 4]
