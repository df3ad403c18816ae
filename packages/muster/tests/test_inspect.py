"""``muster inspect`` shows what is in a checkpoint, and a terminal obeys none of it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from muster._checkpoint_commands import inspect_checkpoints
from muster.checkpoint import Checkpointer, write_checkpoint
from muster.summary import EventFileWriter


def test_control_characters_in_names_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"input": {"pipelines": [{"elements": 1, "pipeline": "map(\x1b[2J)"}]}}
    with Checkpointer(tmp_path) as writer:
        writer.save(1, {"w\x1b[2J\x07": np.zeros(1)}, metadata, wait=True)
    assert inspect_checkpoints(str(tmp_path), step=None, variables=True, restore=False) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "w\\x1b[2J\\x07" in shown
    assert "map(\\x1b[2J)" in shown


def test_metrics_of_evaluations_stand_beside_their_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    position = {"pipeline": "range(9)"}
    pipelines = [{**position, "elements": 4}, {**position, "elements": 5}]
    metadata = {"input": {"pipelines": pipelines}, "ended": True}
    for step in (1, 2):
        write_checkpoint(tmp_path, step, {"w": np.zeros(1)}, metadata)
    for folder, metrics in (
        ("eval", {"accuracy": 0.91667, "loss": 0.25, "global_step": 2.0}),
        ("eval_test", {"loss": 0.5}),
    ):
        with EventFileWriter(tmp_path / folder) as writer:
            writer.add_scalars(metrics, 2)
    assert inspect_checkpoints(str(tmp_path), step=None, variables=False, restore=False) == 0
    head, first, second, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "written", "size", "accuracy", "loss", "test/loss", "state"]
    assert first.split()[-4:] == ["-", "-", "-", "intact"]
    assert second.split()[-4:] == ["0.9167", "0.25", "0.5", "intact"]
    assert "Of the inputs of 2 workers 4 and 5 batches were taken: range(9)" in rest


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (100, ["step", "written", "size", "accuracy", "auc", "loss", "state"]),
        (52, ["step", "written", "size", "accuracy", "state"]),
        (36, ["step", "written", "state"]),
        (10, ["step", "state"]),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_and_no_broken_words(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    shown: list[str],
) -> None:
    write_checkpoint(tmp_path, 2, {"w": np.zeros(1)}, {})
    with EventFileWriter(tmp_path / "eval") as writer:
        writer.add_scalars({"accuracy": 0.91667, "auc": 0.5, "loss": 0.25}, 2)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert inspect_checkpoints(str(tmp_path), step=None, variables=False, restore=False) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == shown
    assert max(len(head), len(row)) <= max(columns, len("step  intact"))
