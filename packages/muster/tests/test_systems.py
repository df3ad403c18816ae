"""What works on systems other than Linux: all but `muster run`."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from elsewhere import LINUX_ONLY
from jobs import free_addresses
from muster.__main__ import main
from muster.checkpoint import WriterWatch, latest_checkpoint
from muster.lifecycle import _processes
from muster.net import make_secret
from repository import CORE, ROOT

ELSEWHERE = Path(__file__).with_name("elsewhere.py")
# These look first whether the name is there, or Linux is.
GUARDED = {
    "cpu/_kernel_convolution.py": {"os.sched_getaffinity"},  # kernels are for Linux
    "lifecycle/_processes.py": {"time.CLOCK_BOOTTIME"},
    "checkpoint/_arrays.py": {"os.posix_fallocate"},
    "distribute/engine/_mesh.py": {"os.sched_setaffinity"},
}


def linux_only_names(module: Path) -> set[str]:
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr.startswith(LINUX_ONLY.get(node.value.id, ("nothing",)))
    }


def test_only_muster_run_uses_what_linux_alone_has() -> None:
    package = CORE / "src" / "muster"
    found = {str(path.relative_to(package)): linux_only_names(path) for path in package.rglob("*.py")}
    assert {
        name: names for name, names in found.items() if names and not name.startswith(("engines/", "launch/"))
    } == GUARDED
    assert found["engines/_machine.py"] == {"os.sched_getaffinity"}
    assert "os.pidfd_open" in found["engines/_keeper.py"]


def run(program: Path, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ELSEWHERE), str(program), *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def write(folder: Path, code: str) -> Path:
    (folder / "program.py").write_text(code)
    return folder / "program.py"


EVERY_MODULE = """
import importlib, os, pkgutil, time
import muster
assert not hasattr(os, "sched_getaffinity") and not hasattr(time, "CLOCK_BOOTTIME")
assert not os.path.exists("/proc/self/stat")
for module in pkgutil.walk_packages(muster.__path__, "muster."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from muster.__main__ import main
main(["--help"])
"""


@pytest.mark.processes
def test_every_module_is_imported(tmp_path: Path) -> None:
    done = run(write(tmp_path, EVERY_MODULE), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "COMMAND" in done.stdout


@pytest.mark.slow
@pytest.mark.processes
def test_the_program_of_the_readme_trains_and_goes_on(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"```python\n(from muster import .*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert "max_steps=2000" in code
    for steps in ("200", "300"):
        done = run(write(tmp_path, code.replace("max_steps=2000", f"max_steps={steps}")), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"accuracy 0\.\d+, loss \d+\.\d+\n", done.stdout), done.stdout
        assert str(latest_checkpoint(tmp_path / "runs/readme")).endswith(f"-{steps}")
    assert main(["inspect", str(tmp_path / "runs/readme")]) == 0


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.alone
def test_workers_and_an_evaluator_that_are_started_by_hand(tmp_path: Path) -> None:
    first, second, evaluator = free_addresses(3)
    tasks = [("worker", 0), ("worker", 1), ("evaluator", 0)]
    secret = make_secret()
    processes = []
    for kind, index in tasks:
        cluster = {"worker": [first, second], "evaluator": [evaluator]}
        config = {"cluster": cluster, "task": {"type": kind, "index": index}}
        processes.append(
            subprocess.Popen(
                [sys.executable, str(ELSEWHERE), str(ROOT / "examples/digits.py"), "--max-steps", "40",
                 "--model-dir", str(tmp_path / "run")],
                cwd=tmp_path,
                env={name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
                | {"TF_CONFIG": json.dumps(config), "MUSTER_SECRET": secret},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )  # fmt: skip
    outputs = finish(processes)
    assert [process.returncode for process in processes] == [0, 0, 0], "\n".join(outputs)
    assert "Accuracy on the 360 held-out images" in outputs[2]


def finish(processes: Sequence["subprocess.Popen[str]"]) -> list[str]:
    """Wait for the end of processes, and return what they printed; none goes on."""
    end = time.monotonic() + 200
    try:
        return [process.communicate(timeout=max(0.0, end - time.monotonic()))[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.alone
def test_parameter_servers_a_coordinator_and_fit(tmp_path: Path) -> None:
    done = run(ROOT / "examples/migrate_multi_worker.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^MultiWorkerMirroredStrategy: loss [\d.]+", done.stdout, re.M)
    assert re.search(r"^ParameterServerStrategy: loss [\d.]+", done.stdout, re.M)


@pytest.mark.processes
def test_muster_run_says_that_it_needs_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit) as exit:
        main(["run", "--workers", "2", str(ROOT / "examples/digits.py")])
    assert exit.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("muster run: error: this needs Linux, and this is darwin; start each task by hand")


@pytest.fixture
def no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_PROC", tmp_path / "proc")
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")


@pytest.mark.processes
@pytest.mark.usefixtures("no_proc")
def test_ps_tells_when_processes_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    began = _processes.start_ticks()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        later = _processes.start_ticks(child.pid)
    finally:
        child.communicate(b"\n")
    assert began is not None
    assert later is not None
    assert began <= later
    assert abs(later - time.time()) < 60
    assert _processes.process_start() == began == _processes.start_ticks(os.getpid())
    assert _processes.start_ticks(child.pid) is None


@pytest.mark.processes
def test_both_ways_agree_when_this_process_began(no_proc: None, monkeypatch: pytest.MonkeyPatch) -> None:
    by_ps = _processes.process_start()
    monkeypatch.undo()
    assert abs(by_ps - _processes.process_start()) < 2


@pytest.mark.processes
@pytest.mark.usefixtures("no_proc")
def test_without_ps_nobody_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _processes.start_ticks() is None
    assert abs(_processes.process_start() - time.time()) < 5
    assert not WriterWatch(tmp_path).is_writing()
