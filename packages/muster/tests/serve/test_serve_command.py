"""The options of ``muster serve``, and what it needs."""

import importlib.util
import subprocess
import sys

import pytest
from artefacts import save_model

from muster.__main__ import main
from muster._extras import working_command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "65536"], "must be from 0 to 65535"),
        (["--port", "x"], "must be an integer"),
        (["--name", "a/b"], "must be one word"),
        (["--name", ""], "must be one word"),
        (["--max-batch-size", "0"], "must be 1 or more"),
        (["--max-wait-ms", "-1"], "must be 0 or more"),
        (["--max-wait-ms", "nan"], "must be 0 or more"),
        (["--max-body-mb", "inf"], "must be 0 or more"),
        (["--poll-secs", "0"], "must be 0.01 or more"),
    ],
)
def test_wrong_options_are_named(capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "models", *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_packages_are_named_with_the_remedy(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert main(["serve", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "package uvicorn, which is not installed" in error
    assert working_command("serve") in error


def test_a_folder_that_cannot_be_served_is_named(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none")]) == 1
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    save_model(tmp_path / "1", 1.0)
    assert main(["serve", str(tmp_path / "1")]) == 1
    assert "is a saved model itself. Name the folder above it" in capsys.readouterr().err
    for name in ("best", "latest"):
        save_model(tmp_path / "model_dir" / "export" / name / "7", 1.0)
    assert main(["serve", str(tmp_path / "model_dir")]) == 1
    exports = tmp_path / "model_dir" / "export"
    said = (
        f"has no folders of versions; {exports / 'best'} has some. Name that, or one of {exports / 'latest'}."
    )
    assert said in capsys.readouterr().err


def test_a_folder_of_checkpoints_alone_is_not_waited_for(tmp_path, capsys):
    (tmp_path / "ckpt-40").mkdir()
    assert main(["serve", str(tmp_path)]) == 1
    assert "has a model's checkpoints, and no exported one. Export the model, and" in capsys.readouterr().err


def test_hosts_that_are_none_are_named(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--host", "256.256.256.256"]) == 1
    assert "cannot listen at 256.256.256.256:8501" in capsys.readouterr().err


@pytest.mark.processes
def test_the_server_imports_neither_keras_nor_estimators():
    program = "import muster.serve._server, sys; print(*{'keras', 'muster.estimator'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr, done.returncode) == ("\n", "", 0)
