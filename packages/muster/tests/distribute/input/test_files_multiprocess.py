"""Workers in processes of their own that read files of different lengths."""

import json
from pathlib import Path

import pytest

from jobs import Job
from muster.data import Example, Feature, Features, Int64List, TFRecordWriter

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("files_child.py")
LENGTHS = [7, 1, 12, 0, 4]


def write_files(folder: Path) -> list[int]:
    """Files of so many numbers, none of them twice. Returns all numbers."""
    numbers = iter(range(1000))
    written = []
    for index, length in enumerate(LENGTHS):
        with TFRecordWriter(folder / f"{index}.tfrecord") as writer:
            for _ in range(length):
                written.append(next(numbers))
                feature = Feature(int64_list=Int64List([written[-1]]))
                writer.write(Example(Features({"number": feature})).SerializeToString())
    return written


@pytest.mark.parametrize("policy", ["AUTO", "DATA"])
def test_every_example_is_computed_once(tmp_path: Path, policy: str) -> None:
    numbers = write_files(tmp_path)
    reports = [tmp_path / f"report-{index}" for index in range(2)]
    with Job(tmp_path / "job", [CHILD], worker=2) as job:
        tasks = [
            job.start(
                "worker",
                index,
                {"pattern": str(tmp_path / "*.tfrecord"), "policy": policy, "report": str(report)},
            )
            for index, report in enumerate(reports)
        ]
        job.all_end_well()
    first, second = (json.loads(report.read_text()) for report in reports)
    assert first == second
    sums, rows = first
    assert sums == [sum(step) for step in rows]
    assert sorted(row for step in rows for row in step) == numbers
    own = "files 1.tfrecord, 3.tfrecord: 2 of 5" if policy == "AUTO" else "all of its dataset, and computes"
    assert f"worker 1 of 2 reads {own}" in tasks[1].log
