"""The measurement on a GPU makes tables of its parts; test_gpu_multiprocess.py rehearses them."""

import json
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = next(each for each in Path(__file__).parents if (each / "bench" / "gpu.py").exists())


@pytest.fixture(autouse=True)
def _bench_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def spec(name, seconds=60.0):
    from bench.gpu import PartSpec

    return PartSpec(name=name, program=name, seconds=seconds, what=f"what {name} does")


WELL = {"outcome": "ok", "seconds": 1.0, "figures": {}, "failures": []}
BADLY = {"outcome": "failed", "seconds": 2.0, "figures": {"left": {"over": 7}}, "failures": ["It fell over."]}


def test_a_part_that_fails_costs_no_other_and_the_run_tells_it():
    from bench.gpu import Run, table

    parts = [spec("first"), spec("second"), spec("third")]
    kept = []
    run = Run(parts, 100.0, lambda records: kept.append(list(records)))
    well = run(lambda part, seconds: BADLY if part.name == "second" else WELL)

    assert not well
    assert [run.records[part.name]["outcome"] for part in parts] == ["ok", "failed", "ok"]
    assert kept == [["first"], ["first", "second"], ["first", "second", "third"]]
    told = table(parts, run.records)
    assert "| second: what second does | failed | 2.0 |" in told
    assert "| second | left: over | 7 |" in told
    assert told.endswith("second: It fell over.")
    assert Run(parts, 100.0, lambda records: None)(lambda part, seconds: WELL)


def test_parts_get_what_is_left_of_the_time_and_are_not_begun_without():
    from bench.gpu import LEAST_SECS, Run

    parts = [spec("first"), spec("second", 1.0), spec("third")]
    given = {}
    run = Run(parts, LEAST_SECS + 30.0, lambda records: None)

    def take(part, seconds):
        given[part.name] = seconds
        if part.name == "second":
            run.until = time.monotonic() + LEAST_SECS - 1
        return WELL

    assert not run(take)
    assert given["first"] <= LEAST_SECS + 30.0 < 60.0
    assert given["second"] == 1.0
    assert "third" not in given
    assert run.records["third"] == {"outcome": "not run", "failures": ["not run: no time left"]}


def test_nothing_else_is_begun_without_a_usable_card():
    from bench.gpu import Run

    parts = [spec("device"), spec("second"), spec("third")]
    begun = []
    run = Run(parts, 100.0, lambda records: None)

    assert not run(lambda part, seconds: begun.append(part.name) or BADLY)
    assert begun == ["device"]
    for name in ("second", "third"):
        assert run.records[name]["failures"] == ["not run: the part device failed"]


def test_speeds_are_medians_and_ratios_are_those_of_rounds():
    from bench._gpu._part import speeds

    seconds = {"muster": [2.0, 1.0, 4.0], "jax": [3.0, 1.0, 1.0], "torch": [1.0, math.nan, math.nan]}
    figures = speeds(seconds, steps=10, examples=5)

    assert figures["ms_per_step"] == {"muster": 200.0, "jax": 100.0}
    assert figures["steps_per_sec"] == {"muster": 5.0, "jax": 10.0}
    assert figures["examples_per_sec"] == {"muster": 25.0, "jax": 50.0}
    assert figures["times_as_fast_as_jax"] == [1.0, 0.25, 1.5]
    assert "times_as_fast_as_torch" not in figures


def test_contestants_alternate_until_the_time_is_over():
    from bench._gpu._part import alternate

    took = []
    turns = {name: lambda name=name: took.append(name) or 1.0 for name in "ab"}

    assert alternate(turns, 2, until=time.monotonic() + 60) == {"a": [1.0, 1.0], "b": [1.0, 1.0]}
    assert took == ["b", "a", "a", "b", "b", "a"]
    # One round is counted in any case.
    assert alternate(turns, 9, until=0.0) == {"a": [1.0], "b": [1.0]}


def test_figures_of_a_part_are_kept_at_once(tmp_path):
    from bench._gpu._part import Part

    part = Part(["cnn", str(tmp_path), "small", "10"])
    part.note(steps=3)
    part.fail("It was slow.")
    part.note(more=[1])

    assert part.small
    kept = json.loads((tmp_path / "cnn.json").read_text())
    assert kept == {"figures": {"steps": 3, "more": [1]}, "failures": ["It was slow."]}
    with pytest.raises(SystemExit, match="1"):
        part.end()


@pytest.mark.parametrize(
    "lines",
    [
        ["tests/a.py::test_x[one device-fit] PASSED   [ 33%]", "tests/a.py::test_y FAILED  [ 66%]"],
        [
            "[gw0] [ 50%] PASSED tests/a.py::test_x[one device-fit] ",
            "[gw1] [100%] FAILED tests/a.py::test_y ",
        ],
        # The short summary alone, and a test that passed but left something behind.
        ["tests/a.py::test_x[one device-fit] PASSED [ 50%]", "FAILED tests/a.py::test_y - assert 1 == 2"],
    ],
)
def test_outcomes_of_the_suite_are_read_from_what_pytest_prints(lines):
    from bench._gpu.conformance import outcomes

    found = outcomes(["collected 2 items", *lines, "== 1 failed, 1 passed in 3.11s =="])
    assert found == {"test_x[one device-fit]": "PASSED", "test_y": "FAILED"}
    leaking = [*lines, "tests/a.py::test_x[one device-fit] ERROR [ 50%]"]
    assert outcomes(leaking)["test_x[one device-fit]"] == "ERROR"


@pytest.mark.parametrize(("gpus", "left_out"), [((), True), (("0",), False)])
def test_all_measurements_are_those_that_this_machine_can_make(monkeypatch, capsys, gpus, left_out):
    from bench import __main__ as bench

    begun = []
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(bench, "this_machine", lambda environ: SimpleNamespace(gpus=gpus))
    monkeypatch.setattr(
        bench.subprocess, "run", lambda command: begun.append(command[-1]) or SimpleNamespace(returncode=0)
    )

    assert bench.main() == 0
    assert ("bench.gpu" in begun) != left_out
    assert len(begun) == len(bench.MEASUREMENTS) - left_out
    assert ("gpu is left out" in capsys.readouterr().out) == left_out


def test_options_go_to_the_one_measurement_that_is_named(monkeypatch, capsys):
    from bench import __main__ as bench

    begun = []
    monkeypatch.setattr(
        bench.subprocess, "run", lambda command: begun.append(command[2:]) or SimpleNamespace(returncode=1)
    )
    monkeypatch.setattr(sys, "argv", ["bench", "gpu", "--rehearse", "--output", "fit"])
    assert bench.main() == 1
    assert begun == [["bench.gpu", "--rehearse", "--output", "fit"]]

    monkeypatch.setattr(sys, "argv", ["bench", "gpu", "fit", "--rehearse"])
    with pytest.raises(SystemExit, match="2"):
        bench.main()
    assert "Options are for one measurement" in capsys.readouterr().err


def test_every_part_is_a_program():
    from bench.gpu import PARTS, TESTS

    assert len({part.name for part in PARTS}) == len(PARTS)
    for part in PARTS:
        assert (ROOT / "bench" / "_gpu" / f"{part.program}.py").exists()
    assert (TESTS / "distribute" / "test_conformance.py").exists()
