"""What one run compiles, the next one loads; nothing that is wrong with the cache stops a program."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.checkpoint import list_checkpoints

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("cached_child.py")


class Ran(NamedTuple):
    """What one task asked to be compiled, how much of that was loaded and written, and the run's output."""

    requests: int
    hits: int
    misses: int
    output: str


def start(command: list[str], cache_home: Path, **environment: str) -> dict[int, Ran]:
    """Run the child to its end; what each of its tasks had to compile."""
    environ = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_COMPILATION_CACHE"}
    done = subprocess.run(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env={**environ, "XDG_CACHE_HOME": str(cache_home), **environment},
    )
    assert done.returncode == 0, done.stdout
    told = [json.loads(each) for each in re.findall(r"events (\[.*\])", done.stdout)]
    assert told, done.stdout
    return {task: Ran(*counts, done.stdout) for task, *counts in told}


def alone(folder: Path, *arguments: str, cache_home: Path | None = None, **environment: str) -> Ran:
    command = [str(CHILD), str(folder / "model"), *arguments]
    return start(command, cache_home or folder / "home", **environment)[0]


def test_a_second_run_compiles_nothing_and_a_damaged_entry_is_replaced(tmp_path: Path) -> None:
    first = alone(tmp_path / "first", cache_home=tmp_path)
    assert first.misses > 0
    assert first.requests == first.hits + first.misses
    again = alone(tmp_path / "second", cache_home=tmp_path)
    assert again.hits == again.requests == first.requests
    assert "XLA" not in again.output
    assert "Warning" not in again.output

    entry, *_ = tmp_path.glob("muster/compilation_cache/*/jit_step-*-cache")
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    damaged = alone(tmp_path / "third", cache_home=tmp_path)
    assert (damaged.hits, damaged.misses) == (first.requests - 1, 1)
    assert alone(tmp_path / "fourth", cache_home=tmp_path).hits == first.requests


@pytest.mark.parametrize("how", [pytest.param("--fit", marks=pytest.mark.slow), "--loop"])
def test_strategies_and_functions_keep_what_they_compile(tmp_path: Path, how: str) -> None:
    first, again = (alone(tmp_path, how) for _ in range(2))
    assert first.misses > 0  # what was compiled before is of moments
    assert (again.hits, again.misses) == (first.hits + first.misses, 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--in-scope"]])
def test_the_workers_of_a_job_keep_it_under_their_model_dir(tmp_path: Path, how: list[str]) -> None:
    command = ["-m", "muster", "run", "--workers", "2", str(CHILD), str(tmp_path / "model"), *how]
    first = start(command, tmp_path / "home")
    # Either compiles what the other does not.
    assert first[0].misses + first[1].misses > 0
    assert all(first[task].hits + first[task].misses == first[task].requests for task in (0, 1))
    for checkpoint in list_checkpoints(tmp_path / "model"):
        for file in Path(checkpoint.path).iterdir():
            file.unlink()
        Path(checkpoint.path).rmdir()
    again = start(command, tmp_path / "home")
    assert all(again[task].hits == again[task].requests for task in (0, 1)), again
    assert bool(how) == (tmp_path / "home").exists()  # used before the job's directory was known
    inspect = [sys.executable, "-m", "muster", "inspect", str(tmp_path / "model")]
    done = subprocess.run(inspect, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "compilation_cache" not in done.stdout


# What else a user may say: a program's arguments, its environment, by the folder of the run.
SETTINGS: dict[str, tuple[list[str], dict[str, str]]] = {
    "off by the program": (["--without-cache"], {}),
    "off by JAX's variable": ([], {"JAX_ENABLE_COMPILATION_CACHE": "0"}),
    "a place of JAX": ([], {"JAX_COMPILATION_CACHE_DIR": "{folder}/own"}),
    "no place to write to": ([], {}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Ran]]:
    """The folder and the outcome of a run of each; two at a time."""

    def run(how: str) -> tuple[Path, Ran]:
        folder = tmp_path_factory.mktemp("run")
        if how == "no place to write to":
            (folder / "home").touch()
        arguments, environment = SETTINGS[how]
        environment = {name: value.format(folder=folder) for name, value in environment.items()}
        return folder, alone(folder, *arguments, **environment)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(SETTINGS, pool.map(run, SETTINGS), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["off by the program", "off by JAX's variable"])
def test_it_can_be_turned_off(runs: dict[str, tuple[Path, Ran]], how: str) -> None:
    folder, ran = runs[how]
    assert (ran.hits, ran.misses) == (0, 0)
    assert not (folder / "home").exists()


@pytest.mark.slow
def test_a_directory_that_the_user_gave_to_jax_is_left_to_jax(runs: dict[str, tuple[Path, Ran]]) -> None:
    folder, _ = runs["a place of JAX"]
    assert not (folder / "home").exists()
    assert (folder / "own").exists()


@pytest.mark.slow
def test_a_place_that_cannot_be_written_to_is_logged_once(runs: dict[str, tuple[Path, Ran]]) -> None:
    folder, ran = runs["no place to write to"]
    assert ran.hits == 0
    assert ran.output.count("is not kept for the next run") == 1
    assert str(folder / "home") in ran.output
