"""Metadata that is set afterwards."""

import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster.checkpoint import amend_metadata, list_checkpoints, read_checkpoint, write_checkpoint


def test_entries_are_set_and_the_rest_stays(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 3, {"w": np.arange(4)}, {"a": 1, "b": 2}, now=5.0)
    before = list_checkpoints(tmp_path)
    amend_metadata(path, {"b": [3], "ended": True})
    checkpoint = read_checkpoint(path)
    assert checkpoint.metadata == {"a": 1, "b": [3], "ended": True}
    np.testing.assert_array_equal(checkpoint.variables["w"], np.arange(4))
    assert list_checkpoints(tmp_path) == before
    assert len(os.listdir(path)) == 2


def full_when_written(path: str, mode: str, **options: Any) -> IO[Any]:
    return open("/dev/full", mode) if mode == "wb" else open(path, mode, **options)


def test_what_cannot_be_amended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointNotFoundError):
        amend_metadata(tmp_path / "ckpt-1", {})
    path = Path(write_checkpoint(tmp_path, 1, {}, {"a": 1}))
    with monkeypatch.context() as patch:
        patch.setattr("muster.checkpoint._manifest.open", full_when_written, raising=False)
        with pytest.raises(CheckpointError, match="cannot be written: No space left"):
            amend_metadata(path, {"a": 2})
    assert len(os.listdir(path)) == 2  # nothing half written is left
    assert read_checkpoint(path).metadata == {"a": 1}
    (path / "manifest.json").write_bytes(b"")
    with pytest.raises(DamagedCheckpointError):
        amend_metadata(path, {"a": 2})
