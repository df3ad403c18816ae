"""Programs as people write them for TensorFlow's clusters: each runs as the tasks that its TF_CONFIG names."""

import shutil
from pathlib import Path

import pytest

from jobs import Job

FOLDER = Path(__file__).parent / "clusters"
TASKS = {
    "census_cluster": {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1},
    "gan_on_workers": {"worker": 2},
    "keras_workers_callbacks": {"worker": 2},
    "recommender_coordinator": {"chief": 1, "worker": 2, "ps": 2},
}
# Others of these kinds of jobs are run by tests of what they are about.
SLOW = ("census_cluster", "gan_on_workers", "keras_workers_callbacks")

pytestmark = pytest.mark.processes


def test_each_program_has_its_tasks() -> None:
    assert sorted(TASKS) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in TASKS]
)
def test_all_tasks_of_it_end_well(name: str, tmp_path: Path) -> None:
    program = shutil.copy(FOLDER / f"{name}.py", tmp_path)
    counts = {kind: count for kind, count in TASKS[name].items() if kind != "evaluator"}
    with Job(tmp_path / "job", [program], **counts) as job:
        for kind, count in TASKS[name].items():
            for index in range(count):
                job.start(kind, index, environ={"WORK": str(tmp_path)})
        job.all_end_well()
        for task in job.tasks:
            if task.name.split()[0] != "ps" and not (
                name == "recommender_coordinator" and "worker" in task.name
            ):
                assert task.log.endswith("ok\n"), task.log[-2000:]
