"""Training a model over two workers ends on the numbers of training it alone."""

import json
from pathlib import Path

import pytest
from same_numbers_cases import CASES, outcome, same

from jobs import Job
from muster.distribute import get_strategy

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("same_numbers_child.py")
# The others are alike, and compiling them takes long.
ALWAYS = {"lstm_dropout", "both_ways", "attention", "images"}
MODELS = [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.soak) for name in CASES]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_two_workers_train_as_one(name: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"report-{index}" for index in (0, 1)]
    with Job(tmp_path / "job", [CHILD], worker=2) as job:
        for index, path in enumerate(paths):
            job.start("worker", index, {"name": name, "report": str(path)})
        job.all_end_well()
    first, second = [json.loads(path.read_text()) for path in paths]
    assert first == second
    same(first, outcome(get_strategy(), name))
