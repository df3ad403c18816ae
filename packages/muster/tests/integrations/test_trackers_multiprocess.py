"""A job of two workers is one run of MLflow, and one of Weights & Biases, also when it is started again."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import Job

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.slow]

CHILD = Path(__file__).with_name("trackers_child.py")


def tracked(folder: Path, log: str) -> list[Any]:
    with Job(folder / log, [CHILD], worker=2) as job:
        for index in (0, 1):
            job.start("worker", index, {"folder": str(folder)})
        job.all_end_well()
    return [json.loads((folder / f"report-{rank}").read_text()) for rank in (0, 1)]


def test_a_job_is_one_run(tmp_path: Path) -> None:
    chief, other = tracked(tmp_path, "first")
    assert other == {"mlflow": None, "wandb": None}
    assert tracked(tmp_path, "again") == [chief, other]
    (losses,) = tmp_path.glob("mlflow/*/*/metrics/loss")
    assert losses.parts[-3] == chief["mlflow"]
    steps = [int(line.split()[2]) for line in losses.read_text().splitlines()]
    assert steps == [4, 8, 4, 8]
    assert (losses.parent.parent / "params/units").read_text() == "1"
    assert {path.name.rpartition("-")[2] for path in tmp_path.glob("wandb/offline-run-*")} == {chief["wandb"]}
