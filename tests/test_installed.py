"""The wheel, installed in an environment of its own: what a user gets, without the source tree."""

import venv
import zipfile
from pathlib import Path

import pytest

from repository import CORE, FRONT_END
from wheels import install, run

pytestmark = pytest.mark.processes

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


def packed(wheel: Path, distribution: str) -> set[str]:
    assert wheel.name.startswith(f"{distribution}-")
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if not name.startswith(f"{distribution}-")}


def sources(package: Path) -> set[str]:
    return {
        str(path.relative_to(package / "src"))
        for path in (package / "src").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_the_wheel_has_the_package_and_its_data(wheel: Path) -> None:
    assert packed(wheel, "muster_train") == sources(CORE)
    assert {"muster/__init__.pyi", "muster/py.typed"} <= sources(CORE)


def test_the_wheel_of_tensorflows_names_has_all_of_them(wheel_of_names: Path) -> None:
    assert packed(wheel_of_names, "muster_tensorflow") == sources(FRONT_END)
    assert "muster_tensorflow/py.typed" in sources(FRONT_END)


def test_the_wheel_trains_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "env", wheel)
    purelib = Path(
        run(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
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
