"""Packages of the package index with Estimators: ported whole, they train beside parameter servers.

They are installed without what they depend on, TensorFlow included. Their programs, in ``packages``, are
ported, too, and run where TensorFlow is installed, as they are.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.processes]

PROGRAMS = Path(__file__).with_name("packages")
PACKAGES = {
    "deepctr": ["deepctr==0.9.4"],
    "tensorflow_ranking": ["tensorflow-ranking==0.5.5", "six", "absl-py"],
    "official": ["tf-models-official==2.1.0.dev2", "six", "absl-py"],
}
# DeepCTR asks the package index for its newest version when it is imported.
NO_REQUESTS = 'def get(url):\n    raise OSError("no network")\n'
DEADLINE = 300  # seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


def installed(package: str, folder: Path) -> Path:
    """Install a package and its programs in a folder, once, and port them."""
    place = folder / package
    if place.exists():
        return place
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place)]
    done = subprocess.run([*command, *PACKAGES[package]], capture_output=True, text=True, timeout=120)
    if done.returncode:
        shutil.rmtree(place, ignore_errors=True)
        pytest.skip(f"pip cannot install {PACKAGES[package][0]} here: {done.stderr.strip()[-300:]}")
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, place)
    (place / "requests.py").write_text(NO_REQUESTS)
    main(["port", "--write", str(place / package), *map(str, place.glob("train_*.py"))])
    return place


def train(package: str, program: str, name: str, folder: Path, *options: str) -> dict[str, float]:
    """Train a model in a job, and return what its evaluation gives."""
    place = installed(package, folder)
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": ""}
    command = [
        sys.executable,
        "-m",
        "muster",
        "run",
        *options,
        str(place / program),
        name,
        str(folder / name),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (found,) = re.findall(r"metrics (\{.*\})", done.stdout)
    metrics: dict[str, float] = ast.literal_eval(found)
    assert metrics["global_step"] == 50
    return metrics


BESIDE_SERVERS = ["--chief", "--workers", "1", "--ps", "1"]


def test_deepctr(folder: Path) -> None:
    metrics = train("deepctr", "train_deepctr.py", "DeepFMEstimator", folder, *BESIDE_SERVERS)
    assert metrics["LogLoss"] < 1
    assert metrics["AUC"] > 0.53


@pytest.mark.parametrize("name", ["dnn", "gam"])
def test_ranking(name: str, folder: Path) -> None:
    metrics = train("tensorflow_ranking", "train_ranking.py", name, folder, *BESIDE_SERVERS)
    assert metrics["metric/ndcg"] > (0.7 if name == "dnn" else 0.5)


@pytest.mark.parametrize(
    ("name", "metric", "least", "most"),
    [
        ("mnist", "accuracy", 0.9, 1.0),
        ("resnet", "loss", 0.0, 5.0),
        ("wide_deep", "average_loss", 0.0, 2.0),
        ("transformer", "loss", 0.0, 3.5),
    ],
)
def test_official_models(name: str, metric: str, least: float, most: float, folder: Path) -> None:
    metrics = train("official", "train_models.py", name, folder, *BESIDE_SERVERS)
    assert least < metrics[metric] <= most
