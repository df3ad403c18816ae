"""Says where the time of the tests goes.

Given ``--durations-file FILE``, or the variable MUSTER_TEST_DURATIONS, pytest appends one line of JSON to the
file for every test, for every module that it collects, and two for every process of tests. To summarize them:

    python packages/muster/tests/durations.py summarize FILE
"""

import argparse
import functools
import json
import math
import os
import platform
import resource
import subprocess
import sys
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import duration_tables

_VARIABLE = "MUSTER_TEST_DURATIONS"
# What JAX tells the durations of, and what they are spent on.
_EVENTS = {
    "/jax/core/compile/backend_compile_duration": "compiling",
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "tracing",
}
_KINDS = ("soak", "alone", "processes")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--durations-file",
        metavar="FILE",
        help="append to a file what each test takes, and on what: see packages/muster/tests/durations.py",
    )


def record(config: pytest.Config) -> None:
    """Record what the tests of this process take, if that was asked for."""
    # Removed, so that no pytest that a test runs appends to the same file.
    file = os.environ.pop(_VARIABLE, None)
    file = getattr(config, "workerinput", {}).get(_VARIABLE) or config.getoption("durations_file") or file
    if not file:
        return
    file = str(Path(file).absolute())
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    config.pluginmanager.register(_Distributor(file) if distributes else _Recorder(file))


class _Distributor:
    """Tells the processes of pytest-xdist where to record: they run the tests."""

    def __init__(self, file: str) -> None:
        self._file = file

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_VARIABLE] = self._file


class Exclusive:
    """Sums what is told when it ends, apart from what has been told of parts of it: per thread, they nest."""

    def __init__(self) -> None:
        self.secs: dict[str, float] = {}
        self._ended = threading.local()

    def add(self, what: str, end: float, duration: float) -> None:
        """Count what has ended just now."""
        ended: list[tuple[float, float]] = self._ended.__dict__.setdefault("spans", [])
        start = end - duration
        parts = 0.0
        while ended and ended[-1][0] >= start:
            began, until = ended.pop()
            parts += until - began
        ended.append((start, end))
        self.secs[what] = self.secs.get(what, 0.0) + max(0.0, duration - parts)

    def restart(self) -> None:
        """Forget what has ended: what begins from now on has no part in it."""
        self._ended = threading.local()


class _Recorder:
    """Appends what each test takes to a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._process = os.environ.get("PYTEST_XDIST_WORKER", "")
        self._began = time.monotonic()
        self._spent = Exclusive()
        self._starting = threading.local()
        self._started: list[float] = []
        self._outcome = ""

    def pytest_sessionstart(self) -> None:
        import jobs
        import wheels

        for owner, name in (
            (subprocess.Popen, "__init__"),
            (jobs.Server, "__init__"),
            (jobs.Server, "start"),
            (venv.EnvBuilder, "create"),
            (wheels, "build"),
            (wheels, "install"),
        ):
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose time counts as that of starting processes, unless it is called by another such."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._starting, "on", False):
                return function(*args, **kwargs)
            self._starting.on = True
            began = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                self._started.append(time.monotonic() - began)
                self._starting.on = False

        return timed

    def _hear(self, event: str, duration: float, **_: object) -> None:
        if what := _EVENTS.get(event):
            self._spent.add(what, time.monotonic(), duration)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        with _measured() as taken:
            report = yield
        self._write({"module": collector.nodeid, "process": self._process, **taken})
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._listen()
        self._outcome = ""
        self._started.clear()
        self._spent.secs.clear()
        self._spent.restart()
        with _measured() as taken:
            result = yield
        secs = {what: round(self._spent.secs.get(what, 0.0), 4) for what in ("compiling", "tracing")}
        self._write(
            {
                "test": item.nodeid,
                "kind": _kind(item),
                "outcome": self._outcome,
                "process": self._process,
                **taken,
                **secs,
                "starting": round(math.fsum(self._started), 4),
                "waiting": round(max(0.0, taken["wall"] - taken["cpu"] - taken["queued"]), 4),
            }
        )
        return result

    def _listen(self) -> None:
        """Hear what JAX tells, also after a test that has let nobody hear it any more."""
        from jax._src import monitoring

        if self._hear not in monitoring.get_event_duration_listeners():
            monitoring.register_event_duration_secs_listener(self._hear)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._outcome = "error" if report.failed and report.when != "call" else report.outcome

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write(
            {
                "session": self._process,
                "selected": Counter(map(_kind, session.items)),
                "collecting": round(time.monotonic() - self._began, 4),
                "date": date.today().isoformat(),
                "machine": _machine(),
            }
        )

    def pytest_sessionfinish(self) -> None:
        self._write(
            {
                "ended": self._process,
                "wall": round(time.monotonic() - self._began, 4),
                "cpu": round(time.process_time(), 4),
                "children": round(_children_secs(), 4),
            }
        )

    def _write(self, line: dict[str, object]) -> None:
        """Append a line at once, whatever other processes append."""
        file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


def _kind(item: pytest.Item) -> str:
    """The kind of a test, by its marks."""
    return next((kind for kind in _KINDS if item.get_closest_marker(kind)), "fast")


@contextmanager
def _measured() -> Iterator[dict[str, float]]:
    """Fill a dict with the seconds that a block takes: of the clock, of processors, queueing for them."""
    looks: dict[str, Callable[[], float]] = {
        "wall": time.monotonic,
        "cpu": time.process_time,
        "children": _children_secs,
        "queued": _queued_secs,
    }
    before = {what: look() for what, look in looks.items()}
    taken: dict[str, float] = {}
    yield taken
    taken.update({what: round(look() - before[what], 4) for what, look in looks.items()})


def _children_secs() -> float:
    """What processes that this one has started, and that have ended, took of the processors."""
    import jobs

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + jobs.ended_secs


def _queued_secs() -> float:
    """How long the main thread was ready to run while the processors ran others; 0 where nothing tells."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _machine() -> str:
    """The processor, how many there are, and what runs on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    return f"{os.cpu_count()} × {name}, Python {platform.python_version()}, JAX {version('jax')}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Summarize what pytest's --durations-file has recorded.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("summarize", help="write the table of all tests, and that of the page")
    command.add_argument("file", type=Path)
    command.add_argument("--table", type=Path, default=Path("tests/durations.tsv"))
    command.add_argument("--page", type=Path, default=Path("docs/contributing/tests.md"))
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.file.read_text().splitlines()]
    arguments.table.write_text(duration_tables.table(lines))
    arguments.page.write_text(duration_tables.placed(arguments.page.read_text(), duration_tables.page(lines)))


if __name__ == "__main__":
    sys.exit(main())
