"""``muster inspect`` and ``muster convert`` of checkpoints that TensorFlow wrote."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import bundles
from muster.__main__ import main
from muster.checkpoint import list_variables, read_checkpoint
from tensorflow_checkpoints import recorded


def test_inspect_shows_a_checkpoint_of_tensorflow(capsys: pytest.CaptureFixture[str]) -> None:
    prefix, said = recorded("custom_model_fn")
    for path in (prefix, prefix.parent):
        assert main(["inspect", "--variables", str(path)]) == 0
        shown = capsys.readouterr().out
        assert f"TensorFlow wrote {prefix}: step 12, {len(said['variables'])} tensors" in shown
        assert "Every byte is as it was written." in shown
        assert "dense/kernel/Adam_1" in shown
    assert main(["inspect", "--step", "7", str(prefix.parent)]) == 1
    assert "is of step 12, not 7" in capsys.readouterr().err


def test_inspect_joins_parts(capsys: pytest.CaptureFixture[str]) -> None:
    prefix, _ = recorded("v1_dnn_partitioned")
    assert main(["inspect", "--variables", str(prefix)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"job_embedding/embedding_weights/Adagrad +\(9, 4\)", shown)
    assert "/t_0/" not in shown


def test_inspect_names_what_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundles.write(tmp_path / "model-3", {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})
    data = bytearray((tmp_path / "model-3.data-00000-of-00001").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model-3.data-00000-of-00001").write_bytes(data)
    assert main(["inspect", str(tmp_path / "model-3")]) == 1
    shown = capsys.readouterr().out
    assert "1 tensors are damaged" in shown
    assert "Damaged: The tensor 'b'" in shown
    assert "their checksum is wrong" in shown


def test_convert_writes_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, said = recorded("custom_model_fn")
    assert main(["convert", str(prefix.parent), str(tmp_path / "model")]) == 0
    assert f"Wrote {len(said['variables'])} variables" in capsys.readouterr().out
    path = tmp_path / "model" / "ckpt-12"
    assert list(list_variables(path)) == list(said["variables"])
    bias = read_checkpoint(path).variables["dense/bias"]
    np.testing.assert_array_equal(bias, np.float32(said["variables"]["dense/bias"]["value"]))
    assert main(["convert", str(prefix), str(tmp_path / "model")]) == 1
    assert "has a checkpoint already" in capsys.readouterr().err


def test_convert_names_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, said = recorded("raw_saver")
    assert main(["convert", str(prefix), str(tmp_path / "model")]) == 0
    assert "Left out, as strings or parts of what is not there: text." in capsys.readouterr().out
    assert len(list_variables(tmp_path / "model" / "ckpt-7")) == len(said["variables"]) - 1


def test_convert_refuses_what_it_cannot_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, _ = recorded("object_based")
    target = tmp_path / "model"
    assert main(["convert", str(prefix), str(target)]) == 1
    assert "is an object-based checkpoint" in capsys.readouterr().err
    assert main(["convert", str(tmp_path), str(target)]) == 1
    assert "There is no TensorFlow checkpoint in" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "gone"), str(target)]) == 1
    assert "There is no TensorFlow checkpoint" in capsys.readouterr().err
    shutil.copy(f"{prefix}.index", tmp_path / "part.index")
    with (tmp_path / "part.index").open("r+b") as file:
        file.truncate(100)
    assert main(["convert", str(tmp_path / "part"), str(target)]) == 1
    assert "it is cut off, or is something else" in capsys.readouterr().err
    assert not target.exists()
