"""Programs as people write them for TensorFlow: each runs where the wheel is installed, and nothing is set, but
how JAX compiles: quickly.

Those that train by `fit` alone, and make no strategy, run inside of the scope of a MirroredStrategy of two devices,
too: of these, `make test` runs half in each way, and `make soak` the others.
"""

import re
import subprocess  # noqa: F401, says that this module starts processes
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS
from wheels import install, run

FOLDER = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("test_")}
MIRRORED = FOLDER.parent / "mirrored.py"


def trains_without_strategy(path: Path) -> bool:
    source = path.read_text()
    return ".fit(" in source and not re.search(
        r"Strategy\w*\(|\.scope\(|[a-z]_strategy\(|\bEstimator\(", source
    )


FITTED = [name for name, path in PROGRAMS.items() if trains_without_strategy(path)]


def but_soak(names: Iterable[str], soak: Collection[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.soak] if name in soak else []) for name in names]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed") / "env")


@pytest.mark.parametrize("name", but_soak(PROGRAMS, FITTED[::2]))
def test_it_runs_in_a_bare_environment(name: str, python: Path, tmp_path: Path) -> None:
    printed = run(
        tmp_path, python, PROGRAMS[name], timeout=DEADLINE, HOME=str(tmp_path), XLA_FLAGS=QUICKLY_BY_FLAGS
    )
    assert printed.endswith("ok\n"), printed[-2000:]


@pytest.mark.parametrize("name", but_soak(FITTED, FITTED[1::2]))
def test_it_runs_on_two_devices(name: str, python: Path, tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        python,
        MIRRORED,
        PROGRAMS[name],
        timeout=DEADLINE,
        HOME=str(tmp_path),
        XLA_FLAGS=QUICKLY_BY_FLAGS,
    )
    assert printed.endswith("ok\n"), printed[-2000:]
