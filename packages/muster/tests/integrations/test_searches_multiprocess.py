"""Searches of four trials, each of which two workers compute together."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import Job

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.slow]

CHILD = Path(__file__).with_name("search_child.py")


def searched(folder: Path, scenario: str) -> list[Any]:
    with Job(folder / "job", [CHILD], worker=2) as job:
        for index in (0, 1):
            job.start("worker", index, {"scenario": scenario, "folder": str(folder)})
        job.all_end_well()
    return [json.loads((folder / f"report-{rank}").read_text()) for rank in (0, 1)]


def test_a_study_of_optuna(tmp_path: Path) -> None:
    chief, other = searched(tmp_path, "optuna")
    assert len(set(chief["rates"])) == 4
    assert other["rates"] == chief["rates"]
    assert sorted(set(chief["states"])) == ["COMPLETE", "PRUNED"]
    assert chief["best"] in chief["rates"]


def test_a_search_of_keras_tuner(tmp_path: Path) -> None:
    chief, other = searched(tmp_path, "keras_tuner")
    assert other["rates"][-4:] == chief["rates"][-4:]
    assert chief["scores"] == other["scores"] == sorted(chief["scores"])
    assert len(set(chief["scores"])) == 4
    assert chief["best"] == pytest.approx(chief["scores"][0], rel=1e-4)
    assert other["best"] == pytest.approx(chief["best"], rel=1e-6)
    assert chief["directory"] == str(tmp_path / "search/four")
    assert not other["directory"].startswith(str(tmp_path))
