"""The measurement on a GPU, rehearsed on the CPU in small sizes, and parts of it that crash and hang."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import QUICKLY_BY_FLAGS

ROOT = next(each for each in Path(__file__).parents if (each / "bench" / "gpu.py").exists())


@pytest.fixture(autouse=True)
def _bench_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def ran(code, folder, seconds):
    """What is kept of a part that is a Python program."""
    from bench.gpu import PartSpec, run_part

    spec = PartSpec(name="part", program="none", seconds=seconds, what="nothing")
    return run_part(spec, [sys.executable, "-c", code], folder, seconds, os.environ)


def alive(process):
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.processes
def test_of_a_part_that_crashes_its_figures_and_last_lines_are_kept(tmp_path):
    code = f"""
import os, pathlib
pathlib.Path({str(tmp_path / "part.json")!r}).write_text('{{"figures": {{"steps": 3}}, "failures": []}}')
for line in range(50):
    print("line", line, flush=True)
os.abort()
"""
    kept = ran(code, tmp_path, 60.0)

    assert kept["outcome"] == "failed"
    assert kept["exit_code"] == -6
    assert kept["failures"] == ["It ended with code -6."]
    assert kept["figures"] == {"steps": 3}
    assert kept["last_lines"] == [f"line {line}" for line in range(10, 50)]


@pytest.mark.processes
def test_a_part_that_hangs_is_killed_with_what_it_has_started(tmp_path):
    code = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""
    kept = ran(code, tmp_path, 8.0)

    assert kept["outcome"] == "failed"
    assert kept["exit_code"] is None
    assert kept["failures"] == ["It did not end within 8 s, and was killed."]
    (child,) = kept["last_lines"]
    deadline = time.monotonic() + 20
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.processes
def test_without_a_card_the_run_says_so_and_fails(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench", "gpu", "--output", tmp_path / "found.json"],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert done.returncode == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["parts"]["device"]["outcome"] == "failed"
    assert any("cuda" in line for line in found["parts"]["device"]["last_lines"])
    assert found["parts"]["cnn"]["failures"] == ["not run: the part device failed"]
    assert "These failed: gpu." in done.stderr


@pytest.mark.processes
@pytest.mark.timeout(900)  # minutes on a machine that much else uses
def test_every_part_is_rehearsed_on_the_cpu(tmp_path):
    from bench.gpu import PARTS

    done = subprocess.run(
        [sys.executable, "-m", "bench", "gpu", "--rehearse", "--budget", "850"]
        + ["--output", tmp_path / "found.json"],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS},
        capture_output=True,
        text=True,
        timeout=880,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["platform"], found["size"]) == ("cpu", "small")
    parts = found["parts"]
    assert {name: part["outcome"] for name, part in parts.items()} == {part.name: "ok" for part in PARTS}
    figures = {name: part["figures"] for name, part in parts.items()}
    for name in ("cnn", "resnet", "transformer"):
        assert {"muster", "jax"} <= set(figures[name]["ms_per_step"])
        assert figures[name]["times_as_fast_as_jax"][0] > 0
        assert f"| {name} | ms_per_step: muster | " in done.stdout
    assert figures["cnn"]["bar"]["steps_per_sec"] == 2200
    workers = [figures["two_workers"][f"worker_{index}"] for index in (0, 1)]
    assert workers[0]["losses"] == workers[1]["losses"]
    assert workers[0]["replicas"] == 2
    assert figures["served"]["chief"]["steps_per_sec"] > 0
    assert figures["exported"]["served"]["1 clients"]["per_second"] > 0
    assert figures["conformance"]["tests"] == {"PASSED": 1}
