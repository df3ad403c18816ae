"""Programs as people write them for TensorFlow: each runs where the wheel is installed, and nothing is set.

That is but for time: muster is imported once, and the process copied for each program; JAX compiles quickly, and
what it has compiled is kept for the other programs.

Those that train by `fit` alone, and make no strategy, run inside of the scope of a MirroredStrategy of two devices,
too: of these, `make test` runs half in each way, and `make soak` the others.
"""

import re
import subprocess  # noqa: F401, says that this module starts processes
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, Server
from wheels import bare_environment, install, run

pytestmark = pytest.mark.processes

FOLDER = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("test_")}
MIRRORED = FOLDER.parent / "mirrored.py"


def trains_without_strategy(path: Path) -> bool:
    source = path.read_text()
    return ".fit(" in source and not re.search(
        r"Strategy\w*\(|\.scope\(|[a-z]_strategy\(|\bEstimator\(", source
    )


# They train several Estimators; others of their kind are not slow.
SLOW = ("k_fold_estimators", "transfer_warm_start")

FITTED = [name for name, path in PROGRAMS.items() if trains_without_strategy(path)]


def but_soak(names: Iterable[str], soak: Collection[str]) -> list[Any]:
    def marks(name: str) -> list[Any]:
        return [pytest.mark.soak] if name in soak else [pytest.mark.slow] if name in SLOW else []

    return [pytest.param(name, marks=marks(name)) for name in names]


@pytest.fixture(scope="module")
def python(wheel: Path, wheel_of_names: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed") / "env", wheel, wheel_of_names)


@pytest.fixture(scope="module")
def server(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts programs in that environment, by processes that have imported muster."""
    compiled = tmp_path_factory.mktemp("compiled")
    server = Server(compiled, "muster_tensorflow", python, bare_environment(HOME=str(compiled)))
    yield server
    server.stop()


def run_by(server: Server, folder: Path, *arguments: Path) -> str:
    environment = bare_environment(HOME=str(folder), XLA_FLAGS=QUICKLY_BY_FLAGS)
    return server.run(list(map(str, arguments)), environment, folder)


@pytest.mark.parametrize("name", but_soak(PROGRAMS, FITTED[::2]))
def test_it_runs_in_a_bare_environment(name: str, server: Server, tmp_path: Path) -> None:
    printed = run_by(server, tmp_path, PROGRAMS[name])
    assert printed.endswith("ok\n"), printed[-2000:]


@pytest.mark.parametrize("name", but_soak(FITTED, FITTED[1::2]))
def test_it_runs_on_two_devices(name: str, server: Server, tmp_path: Path) -> None:
    printed = run_by(server, tmp_path, MIRRORED, PROGRAMS[name])
    assert printed.endswith("ok\n"), printed[-2000:]


def test_it_runs_as_a_new_user_runs_it(python: Path, tmp_path: Path) -> None:
    """With nothing set, imported or compiled before."""
    printed = run(tmp_path, python, PROGRAMS["eager_iris"], timeout=DEADLINE, HOME=str(tmp_path))
    assert printed.endswith("ok\n"), printed[-2000:]
