"""``muster inspect`` shows what is in a checkpoint, and a terminal obeys none of it."""

from pathlib import Path

import numpy as np
import pytest

from muster._checkpoint_commands import inspect_checkpoints
from muster.checkpoint import Checkpointer


def test_control_characters_in_names_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"input": {"elements": 1, "pipeline": "map(\x1b[2J)"}}
    with Checkpointer(tmp_path) as writer:
        writer.save(1, {"w\x1b[2J\x07": np.zeros(1)}, metadata, wait=True)
    assert inspect_checkpoints(str(tmp_path), step=None, variables=True, restore=False) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "w\\x1b[2J\\x07" in shown
    assert "map(\\x1b[2J)" in shown
