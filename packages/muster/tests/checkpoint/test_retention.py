"""Which checkpoints stay, against TensorFlow's recorded runs and against a naive model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.checkpoint import Checkpointer, CheckpointInfo, list_checkpoints, retain, write_checkpoint
from recorded import cases

KEEP_CASES = cases("train_and_evaluate_local", lambda case: case["name"].startswith("keep_"))


def info(step: int, time: float, started: float = 0.0) -> CheckpointInfo:
    return CheckpointInfo(f"ckpt-{step}", step, time, started)


@pytest.mark.parametrize("case", KEEP_CASES)
def test_as_tensorflow_keeps(tmp_path: Path, case: dict[str, Any]) -> None:
    config = case["input"]["run_config"]
    secs_per_step = case["input"].get("clock", {}).get("secs_per_step", 0.0)
    now = 0.0
    for before in case["input"].get("before", []):
        every = before["run_config"]["save_checkpoints_steps"]
        save_steps(tmp_path, range(0, before["train_to"] + 1, every), clock=lambda: now, timer=lambda: now)
    steps = [event["step"] for event in case["expect"]["events"] if event["event"] == "checkpoint_saved"]
    with Checkpointer(
        tmp_path,
        max_to_keep=config["keep_checkpoint_max"],
        keep_every_n_hours=config.get("keep_checkpoint_every_n_hours", 10000),
        clock=lambda: now,
        timer=lambda: now,
    ) as checkpointer:
        for step in steps:
            now = step * secs_per_step
            checkpointer.save(step, {}, {})
    expected = case["expect"]["checkpoints"]["steps_on_disk"]
    if case["name"] == "keep_max_2_after_resume":
        expected = expected[-2:]  # TensorFlow never catches up with a lowered maximum; this does
    assert [i.step for i in list_checkpoints(tmp_path)] == expected


def save_steps(directory: Path, steps: range, **options: Any) -> None:
    with Checkpointer(directory, **options) as checkpointer:
        for step in steps:
            checkpointer.save(step, {"w": np.ones(1)}, {})


def tensorflow_keeps(times: list[int], max_to_keep: int, hours: int) -> set[int]:
    """What stays of checkpoints saved at these times (the step is the index), told save by save."""
    recent: list[int] = []
    kept = set()
    next_kept = times[0] + hours * 3600
    for step in range(len(times)):
        recent.append(step)
        if len(recent) > max_to_keep:
            out = recent.pop(0)
            if times[out] > next_kept:
                kept.add(out)
                next_kept += hours * 3600
    return kept | set(recent)


@given(
    hours=st.integers(1, 5),
    max_to_keep=st.integers(1, 6),
    start=st.integers(0, 10**9),
    data=st.data(),
)
def test_one_process_keeps_as_tensorflow_does(
    hours: int, max_to_keep: int, start: int, data: st.DataObject
) -> None:
    """With saves no rarer than the period; TensorFlow's periods drift where they are."""
    gaps = data.draw(st.lists(st.integers(1, hours * 3600), max_size=40))
    times = [start]
    for gap in gaps:
        times.append(times[-1] + gap)
    on_disk: dict[int, CheckpointInfo] = {}
    for step, time in enumerate(times):
        on_disk[step] = info(step, time, started=start)
        for doomed in retain(
            list(on_disk.values()), max_to_keep=max_to_keep, keep_every_n_hours=hours, current=step
        ):
            del on_disk[doomed.step]
    assert set(on_disk) == tensorflow_keeps(times, max_to_keep, hours)


@given(
    infos=st.lists(st.builds(info, st.integers(0, 50), st.floats(0, 1e6)), unique_by=lambda i: i.step),
    max_to_keep=st.integers(1, 8),
    hours=st.floats(0.01, 1e4),
    data=st.data(),
)
def test_whatever_lies_there(
    infos: list[CheckpointInfo], max_to_keep: int, hours: float, data: st.DataObject
) -> None:
    current = data.draw(st.sampled_from([i.step for i in infos])) if infos else None
    doomed = retain(infos, max_to_keep=max_to_keep, keep_every_n_hours=hours, current=current)
    kept = [i for i in infos if i not in doomed]
    newest = sorted(infos, key=lambda i: i.step)[-max_to_keep:]
    assert set(newest) <= set(kept)
    assert current is None or current in {i.step for i in kept}
    # Doing it again changes nothing: what stays is decided by what is there.
    assert retain(kept, max_to_keep=max_to_keep, keep_every_n_hours=hours, current=current) == []
    # However many there were, no more stay than one a period besides the newest.
    extra = [i for i in kept if i not in newest and i.step != current]
    assert len(extra) <= max((i.time for i in infos), default=0) / (hours * 3600)


@pytest.mark.parametrize("max_to_keep", [0, None])
def test_all_are_kept(max_to_keep: int | None) -> None:
    assert retain([info(i, i) for i in range(100)], max_to_keep=max_to_keep, keep_every_n_hours=1e-6) == []


def test_a_lowered_maximum_catches_up(tmp_path: Path) -> None:
    save_steps(tmp_path, range(10), max_to_keep=8)
    save_steps(tmp_path, range(10, 11), max_to_keep=3)
    assert [i.step for i in list_checkpoints(tmp_path)] == [8, 9, 10]


@pytest.mark.parametrize("other", [{"max_to_keep": None}, {"max_to_keep": 0}, {"keep_every_n_hours": 1}])
def test_what_a_run_under_another_policy_kept_stays(tmp_path: Path, other: dict[str, Any]) -> None:
    """TensorFlow's later run has only the last of them in its list, and deletes that one."""
    save_steps(tmp_path, range(3), **other)
    write_checkpoint(tmp_path, 3, {}, {})  # by hand
    for first in (4, 8):
        save_steps(tmp_path, range(first, first + 4), max_to_keep=2)
    assert [i.step for i in list_checkpoints(tmp_path)] == [0, 1, 2, 3, 10, 11]


def test_hours_without_end_are_plain_json(tmp_path: Path) -> None:
    save_steps(tmp_path, range(4), max_to_keep=1, keep_every_n_hours=float("inf"))
    (left,) = list_checkpoints(tmp_path)
    assert "Infinity" not in (Path(left.path) / "manifest.json").read_text()


def test_periods_go_on_over_restarts(tmp_path: Path) -> None:
    """Each checkpoint is written by another process, and the very first is long gone."""
    for step in range(13):
        with Checkpointer(
            tmp_path, max_to_keep=1, keep_every_n_hours=1, clock=lambda step=step: 1e9 + step * 1500
        ) as one:
            one.save(step, {}, {})
    assert [i.step for i in list_checkpoints(tmp_path)] == [3, 5, 8, 10, 12]


@pytest.mark.parametrize("set_by", [-3600, 36000])
def test_periods_are_measured_by_a_clock_that_nobody_sets(tmp_path: Path, set_by: float) -> None:
    date = passed = 1e9
    with Checkpointer(
        tmp_path, max_to_keep=1, keep_every_n_hours=1, clock=lambda: date, timer=lambda: passed
    ) as checkpointer:
        for step in range(13):
            checkpointer.save(step, {}, {}, wait=True)
            date += 1500 + (set_by if step == 6 else 0)
            passed += 1500
    infos = list_checkpoints(tmp_path)
    assert [i.step for i in infos] == [3, 5, 8, 10, 12]  # as if it had not been set
    assert infos[-1].time == 1e9 + 12 * 1500 + set_by  # and dates are dates


@pytest.mark.parametrize(("max_to_keep", "hours"), [(-1, 1.0), (1, 0.0), (1, -1.0), (1, float("nan"))])
def test_bad_arguments(tmp_path: Path, max_to_keep: int, hours: float) -> None:
    with pytest.raises(ValueError, match="give a number"):
        retain([], max_to_keep=max_to_keep, keep_every_n_hours=hours)
    with pytest.raises(ValueError, match="give a number"):
        Checkpointer(tmp_path / "new", max_to_keep=max_to_keep, keep_every_n_hours=hours)
    assert not (tmp_path / "new").exists()
