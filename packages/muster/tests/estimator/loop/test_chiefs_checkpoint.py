"""Workers that begin at the chief's checkpoint, whether they share its folder or not."""

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from linked import together
from muster.checkpoint import restore_latest, write_checkpoint
from muster.estimator.loop import _chiefs_checkpoint

W = np.arange(1000.0)


def begin(folders):
    """Let workers begin, each with a folder; returns what each begins at, and whether it is a copy."""

    def one(link):
        folder = str(folders[link.rank])
        found = restore_latest(folder, mapped=True)
        with ExitStack() as resources:
            strategy = SimpleNamespace(workers=link)
            begun = _chiefs_checkpoint.chiefs_checkpoint(strategy, folder, found, resources)
            if begun is None:
                return None
            value = np.array(begun.variables["w"])
            assert os.path.exists(begun.path)
            path = begun.path
            begun.close()
        return begun.step, value, begun.metadata, not os.path.exists(path)

    return together(len(folders), one)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(_chiefs_checkpoint, "_CHUNK_BYTES", 1000)


def save(folder, step, value=W):
    write_checkpoint(folder, step, {"w": value}, {"input": [{"at": step}, {"at": step}]})


def test_a_folder_that_all_see_is_read_by_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, 7)
    assert [(step, copied) for step, _, _, copied in begin([tmp_path] * 3)] == [(7, False)] * 3
    assert [each.name for each in tmp_path.iterdir()] == ["ckpt-7"]
    assert not caplog.records


def test_who_does_not_see_it_gets_a_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folders = [tmp_path / name for name in ("chief", "empty", "older", "other")]
    save(folders[0], 7)
    save(folders[2], 3, -W)
    save(folders[3], 7, -W)
    with caplog.at_level(logging.WARNING):
        found = begin(folders)
    for step, value, metadata, _ in found:
        assert (step, metadata["input"]) == (7, [{"at": 7}] * 2)
        np.testing.assert_array_equal(value, W)
    assert [copied for *_, copied in found] == [False, True, True, True]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert f"{folders[1]} is not the chief's folder, " in " ".join(told)
    assert all("begins at the chief's checkpoint of step 7" in each for each in told)
    assert restore_latest(folders[2]).step == 3  # it is left alone


def test_all_begin_anew_where_the_chief_has_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "other", 5)
    with caplog.at_level(logging.WARNING):
        assert begin([tmp_path / "chief", tmp_path / "other"]) == [None, None]
    (told,) = caplog.records
    assert "this worker begins anew" in told.getMessage()


def test_one_that_cannot_write_the_copy_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "chief", 7)

    def full(strategy, source, target, size):
        if target is not None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(_chiefs_checkpoint, "_send", full)
    with pytest.raises(Exception, match="cannot be sent to all workers: .*No space left on device. It has"):
        raise begin([tmp_path / "chief", tmp_path / "other"])[1]
