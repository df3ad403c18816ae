"""A worker that ends in the ordinary way while another has more to do is named as what it is."""

from pathlib import Path

import pytest

from jobs import Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("uneven_ends_child.py")


@pytest.mark.samples("epochs-fit", "train-train")
@pytest.mark.parametrize(("more", "doing"), [("epochs", "fit"), ("evaluate", "evaluate"), ("train", "train")])
def test_who_ended_first_is_named(tmp_path, more, doing):
    with Job(tmp_path, [CHILD], worker=2) as job:
        first, second = (job.start("worker", index, more) for index in range(2))
        codes = first.code(), second.code()
    said = f"worker 0 has ended its program in the ordinary way (exit code 0), while worker 1 is in {doing}"
    assert codes[1] != 0
    for task in (first, second):
        assert said in task.log
        assert "has broken off" not in task.log
        assert str(task.told.culprit) == "worker 0"
        assert task.told.reason.startswith(said)
    assert "has trained" in first.log
