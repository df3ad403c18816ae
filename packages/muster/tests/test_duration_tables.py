"""What the tests take is measured and summed up as duration_tables.py and durations.py say."""

import os
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

import duration_tables
import durations


def line(test: str, kind: str = "fast", **secs: float) -> duration_tables.Line:
    names = ("wall", "cpu", "children", "queued", "compiling", "tracing", "starting", "waiting")
    return {"test": test, "kind": kind, "outcome": "passed", **dict.fromkeys(names, 0.0), **secs}


def begin(**selected: int) -> duration_tables.Line:
    return {"session": "", "selected": selected, "date": "2026-01-31", "machine": "2 × Z80"}


def test_the_parts_of_a_test_are_all_of_it_but_queueing() -> None:
    taken = duration_tables.taken(
        line("a.py::b", wall=10.0, queued=5.0, cpu=4.0, compiling=4.0, tracing=2.0, starting=0.5, waiting=1.0)
    )
    assert {name: taken[name] for name in ("secs", *duration_tables.CAUSES)} == {
        "secs": 5.0,
        "compiling": 2.0,
        "tracing": 1.0,
        "starting": 0.5,
        "waiting": 0.5,
        "other": 1.0,
    }


def test_what_a_test_waits_while_it_compiles_is_compiling() -> None:
    taken = duration_tables.taken(line("a.py::b", wall=4.0, compiling=3.0, tracing=2.0, waiting=3.5))
    assert [taken[name] for name in duration_tables.CAUSES] == [3.0, 1.0, 0.0, 0.0, 0.0]


def test_a_function_stands_for_its_cases() -> None:
    lines = [
        line("tests/a/test_b.py::test_c[1-[x]]", wall=1.0, cpu=0.5, children=2.0),
        line("tests/a/test_b.py::test_d", "alone", wall=2.5, queued=0.25),
        line("tests/a/test_b.py::test_c[2]", wall=2.0),
        {"module": "tests/a/test_b.py", "wall": 9.0, "queued": 0.0},
    ]
    assert duration_tables.table(lines).splitlines() == [
        "secs\tprocessor\tcases\tkind\ttest",
        "3.00\t2.50\t2\tfast\ttests/a/test_b.py::test_c",
        "2.25\t0.00\t1\talone\ttests/a/test_b.py::test_d",
    ]


@pytest.mark.parametrize(
    ("test", "folder"),
    [
        ("tests/test_a.py::test_b", "tests"),
        ("tests/c/test_a.py::test_b[x/y]", "tests/c"),
        ("tests/c/d/test_a.py::test_b", "tests/c"),
        ("packages/e/tests/c/d/test_a.py::test_b", "packages/e/tests/c"),
    ],
)
def test_folders_are_those_of_tests(test: str, folder: str) -> None:
    assert duration_tables.folder(line(test)) == folder


def test_the_page_says_what_was_measured() -> None:
    lines = [
        line("tests/a/test_b.py::test_c", wall=2.0, compiling=1.5),
        {**line("tests/test_d.py::test_e", "alone", wall=1.0, waiting=1.0), "outcome": "failed"},
        {"module": "tests/test_d.py", "wall": 3.0, "queued": 1.0},
        {"module": "tests/test_d.py", "wall": 9.0, "queued": 8.0},
        begin(fast=1),
        begin(alone=1),
    ]
    page = duration_tables.page(lines)
    assert page.startswith("Measured on 2026-01-31, on 2 × Z80: 2 cases of 2 tests, of which 1 failed.\n")
    assert "\n| all | 2 | 3 | 2 | 0 | 0 | 1 | 0 | 0 | 0 |\n" in page
    assert "takes each process 2 s" in page
    assert "\n| `test_b.py::test_c` | fast | 1 | 2.0 | compiling | 0.0 | 0.0 |\n" in page


def test_the_page_says_what_an_interrupted_run_left_out() -> None:
    lines = [begin(fast=1200, alone=1), begin(fast=1200), line("tests/test_a.py::test_b"), line("c", "alone")]
    first, *_ = duration_tables.page(lines).splitlines()
    assert first.endswith(" **The run ended early**: the cases left out are 1,199 fast.")


def test_only_what_is_measured_is_replaced() -> None:
    page = f"before\n{duration_tables.BEGIN}\nold\n{duration_tables.END}\nafter\n"
    placed = duration_tables.placed(page, "new")
    assert placed == f"before\n{duration_tables.BEGIN}\n\nnew\n\n{duration_tables.END}\nafter\n"
    assert duration_tables.placed(placed, "new") == placed
    with pytest.raises(ValueError, match="needs the two lines"):
        duration_tables.placed("before\nafter\n", "new")


def test_what_is_part_of_something_else_counts_once() -> None:
    spent = durations.Exclusive()
    spent.add("tracing", end=2.0, duration=1.0)  # in the next
    spent.add("compiling", end=4.0, duration=3.0)
    spent.add("compiling", end=6.0, duration=1.5)
    assert spent.secs == {"tracing": 1.0, "compiling": 3.5}


def test_jax_tells_durations_by_the_names_that_are_listened_for() -> None:
    heard = set()

    def hear(event: str, duration: float, **_: object) -> None:
        heard.add(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        jax.jit(lambda x: x + 1)(jnp.ones(3))
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
    assert heard >= set(durations._EVENTS)


@pytest.mark.parametrize(
    ("option", "variable", "worker", "registered"),
    [
        (None, None, {}, []),
        ("a", None, {}, ["a"]),
        (None, "b", {}, ["b"]),
        ("a", "b", {}, ["a"]),
        (None, None, {durations._VARIABLE: "c"}, ["c"]),
    ],
)
def test_nothing_is_recorded_unless_that_is_asked_for(
    option: str | None,
    variable: str | None,
    worker: dict[str, str],
    registered: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable:
        monkeypatch.setenv(durations._VARIABLE, variable)
    plugins: list[durations._Recorder] = []
    config = SimpleNamespace(
        getoption=lambda name, default=None: {"durations_file": option}.get(name, default),
        pluginmanager=SimpleNamespace(register=plugins.append),
        **({"workerinput": worker} if worker else {}),
    )
    durations.record(config)
    assert [plugin._file for plugin in plugins] == [str(Path(name).absolute()) for name in registered]
    assert durations._VARIABLE not in os.environ
