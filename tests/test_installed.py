"""The wheel, installed in an environment of its own: what a user gets, without the source tree."""

import importlib.metadata
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TRAINS = """
import muster
from muster import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec

def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features)[:, 0] - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)

x, y = keras.random.normal((8, 4)), keras.ops.ones(8)
estimator = Estimator(model_fn, model_dir="runs")
estimator.train(lambda: Dataset.from_tensor_slices((x, y)).batch(8), max_steps=1)
print(muster.__file__, estimator.get_variable_value("global_step"))
"""


def run(folder: Path, *command: str | Path) -> str:
    """Run a command as a user would, who has no source tree: in another folder, without PYTHONPATH."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "XLA_FLAGS", "KERAS", "COVERAGE"))
    }
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_the_package_and_its_data(wheel: Path) -> None:
    assert wheel.name.startswith("muster_train-")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if not name.startswith("muster_train-")}
    there = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/muster").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert packed == there
    assert {"muster/__init__.pyi", "muster/py.typed"} <= packed


def test_the_wheel_trains_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    """Beside what is installed already: to fetch that anew takes too long, and is for `make soak`."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    run(tmp_path, python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    purelib = Path(
        run(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    # Only the folder: `.pth` files in it, such as that of a source tree, are not read.
    others = importlib.metadata.distribution("keras").locate_file("")
    (purelib / "others.pth").write_text(f"{others}\n")
    assert run(tmp_path, python, "-c", TRAINS).split() == [str(purelib / "muster/__init__.py"), "1"]
    check(tmp_path, python)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_wheel_and_all_that_it_needs_come_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    run(tmp_path, python, "-m", "pip", "install", "--quiet", f"{wheel}[parquet,serve,keys]")
    assert run(tmp_path, python, "-c", TRAINS).split()[-1] == "1"
    run(tmp_path, python, "-m", "pip", "check")
    run(tmp_path, python, "-c", "import cryptography, pyarrow, starlette, uvicorn")
    check(tmp_path, python)


def check(folder: Path, python: Path) -> None:
    """The command, and the names of the distribution and of the import."""
    command = python.parent / "muster"
    assert "COMMAND" in run(folder, command, "--help")
    version = run(folder, command, "--version").split()[-1]
    code = "import importlib.metadata; print(importlib.metadata.version('muster-train'))"
    assert run(folder, python, "-c", code).strip() == version
