"""What every test is held to: it leaves nothing behind."""

import contextlib
import functools
import gc
import os
import platform
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import durations
import jobs
import wheels
from departures import Outcome
from muster._event_log import live_logs
from repository import FRONT_END

# A shell's background jobs ignore Ctrl-C, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So would they SIGHUP under nohup.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Several CPU devices for tests of strategies; JAX reads this when it first looks for devices.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

# Where the conformance suite trains: on the CPU, or on another of JAX's platforms, such as gpu.
ON_CPU = os.environ.get("MUSTER_TEST_PLATFORM", "cpu") == "cpu"

# Python asks `uname -p` once, when some library is imported that wants to know: not in the midst of a test.
platform.processor()

# How many logs of events are shown of a test that fails, and how many lines of each.
_MOST_LOGS, _MOST_LINES = 4, 60

# No test finds what another has compiled, or leaves anything in the user's cache directory.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

# A machine that stalls says nothing about an example, or about how examples are found.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

_compiles_quickly = False
# How many programs are lowered in a context: what they are made of stays in it.
_MOST_IN_A_CONTEXT = 100

# Set by pytest at each phase, and by Keras, JAX and scikit-learn when they are first imported.
_EXPECTED_VARIABLES = {
    "KERAS_BACKEND",
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "PYTEST_CURRENT_TEST",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TPU_SKIP_MDS_QUERY",
}
# What a module imports of jobs.py to start processes.
_STARTS_JOBS = ("Job", "Process")
# Tests with these marks may start processes.
_MAY_START = ("processes", "alone", "soak")
# How many recorded cases come out otherwise than in TensorFlow, and how.
_DEPARTED = pytest.StashKey[Counter[str]]()
# How long what a test has ended may take to be gone, in seconds.
_GRACE_SECS = 3.0


def pytest_xdist_auto_num_workers() -> int:
    """One more process of tests than processors: those that start others mostly wait."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    durations.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let programs of this process be compiled as the test that runs wants it; those of others are compiled
    as their environment says: see ``QUICKLY_BY_FLAGS`` in jobs.py."""
    durations.record(config)
    if hasattr(config, "workerinput"):
        _give_way()
    if not ON_CPU:
        _take_accelerator()
    from jax._src import compiler

    options = compiler.get_compile_options

    @functools.wraps(options)
    def as_wanted(*args: Any, env_options_overrides: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        quickly = jobs.QUICKLY if _compiles_quickly else {}
        return options(*args, env_options_overrides={**quickly, **(env_options_overrides or {})}, **kwargs)

    compiler.get_compile_options = as_wanted
    _share_contexts()


def _share_contexts() -> None:
    """Let programs be lowered in few contexts of MLIR, which are those of a thread.

    JAX makes one for each program, with all of its dialects: half of the time to lower a small one, and its
    memory stays for as long as the program does.
    """
    from jax._src.interpreters import mlir

    make, local = mlir.make_ir_context, threading.local()

    @functools.wraps(make)
    def shared() -> Any:
        left = getattr(local, "left", 0)
        if not left:
            local.context, left = make(), _MOST_IN_A_CONTEXT
        local.left = left - 1
        return local.context

    mlir.make_ir_context = shared


def _take_accelerator() -> None:
    """Let JAX find the accelerator before any test, for which what its driver opens would be leaks."""
    import jax

    jax.block_until_ready(jax.numpy.ones((8, 8)) @ jax.numpy.ones((8, 8)))


def _give_way() -> None:
    """Leave the processors to the tests marked ``alone``, which another process runs meanwhile.

    Linux shares them between sessions first, then between the processes of each.
    """
    with contextlib.suppress(OSError):  # it leads a session already
        os.setsid()
    with contextlib.suppress(OSError):  # not on Linux, or all sessions share alike
        Path("/proc/self/autogroup").write_text("19")
    os.nice(19)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow the cases that are no samples of their test, and count those that come out otherwise."""
    _mark_slow_cases(config, items)
    marks = [mark for item in items for name in ("departs", "otherwise") for mark in item.iter_markers(name)]
    config.stash[_DEPARTED] = Counter(mark.args[-1].value for mark in marks)


def _mark_slow_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow the cases of each test that its mark ``samples`` does not name."""
    unknown: dict[str, set[str]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and (mark := item.get_closest_marker("samples")):
            name = item.nodeid.partition("[")[0]
            case = item.callspec.id if hasattr(item, "callspec") else ""
            unknown.setdefault(name, set(mark.args)).discard(case)
            if case not in mark.args:
                item.add_marker(pytest.mark.slow)
    # Where a case is asked for by its name, others of the test are not here.
    if not any("[" in arg for arg in config.args):
        wrong = [
            f"{name} has no case {', '.join(map(repr, sorted(ids)))}" for name, ids in unknown.items() if ids
        ]
        if wrong:
            raise pytest.UsageError("Marks `samples` name cases that do not exist: " + "; ".join(wrong))


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what all tests import, which it went through for a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many of the recorded cases come out otherwise than they did in TensorFlow."""
    if departed := config.stash.get(_DEPARTED, Counter()):
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in departed.items())
        terminalreporter.line(
            f"{departed.total()} recorded cases come out otherwise than in TensorFlow, by rules: {outcomes}."
        )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Let a test that is marked ``departs`` pass only if it fails: see `recorded.cases`."""
    mark = pyfuncitem.get_closest_marker("departs")
    if mark is None:
        return (yield)
    reason, outcome = mark.args
    try:
        yield
    except (Exception, pytest.fail.Exception):
        if outcome is Outcome.LACKING:
            pytest.skip(reason)
        return True
    pytest.fail(f"muster does here what TensorFlow did: the departure is too wide whose reason is: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the state machines of a test that fails have seen and done, the last of it."""
    report = yield
    if report.failed:
        for log in [*live_logs][:_MOST_LOGS]:
            *lines, _ = str(log).split("\n")
            cut = [f"({len(lines) - _MOST_LINES} lines)"] if lines[_MOST_LINES + 1 :] else []
            shown = lines if not cut else [lines[0], *cut, *lines[1 - _MOST_LINES :]]
            report.sections.append((f"events of {log.name}", "\n".join(shown)))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile quickly, but as users' programs are compiled in tests that are marked ``optimized``."""
    import jax

    live_logs.clear()  # of earlier tests

    global _compiles_quickly
    quickly = ON_CPU and item.get_closest_marker("optimized") is None
    before, _compiles_quickly = _compiles_quickly, quickly
    if before and not _compiles_quickly:
        jax.clear_caches()


@pytest.fixture(scope="session", autouse=True)
def _processes_are_preloaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """For tests that start jobs; before any of them, which are to leave nothing behind."""
    modules = {item.module for item in request.session.items}
    wanted = any(hasattr(module, name) for module in modules for name in _STARTS_JOBS)
    with jobs.preloaded(tmp_path_factory.mktemp("compiled")) if wanted else contextlib.nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_compiled() -> None:
    """Else the first test that computes by them would start a compiler."""
    import muster.cpu

    muster.cpu.has_kernels()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """muster's wheel."""
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def wheel_of_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of TensorFlow's names."""
    return wheels.build(tmp_path_factory.mktemp("wheel"), FRONT_END)


@pytest.fixture(scope="session")
def wheel_python(wheel: Path, wheel_of_names: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that both wheels are installed in."""
    return wheels.install(tmp_path_factory.mktemp("environment") / "env", wheel, wheel_of_names)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For modules whose tests compile the same programs: what takes long is compiled for the first alone."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    with contextlib.ExitStack() as restored:
        for name, value in (
            ("jax_enable_compilation_cache", True),
            ("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled"))),
            ("jax_persistent_cache_min_compile_time_secs", 0.05),
            ("jax_persistent_cache_min_entry_size_bytes", -1),
        ):
            restored.callback(jax.config.update, name, getattr(jax.config, name))
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        restored.callback(compilation_cache.reset_cache)
        yield


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing in it, in which the program runs, outside of any cluster."""
    place = tmp_path / "program"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return place


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """A list that gets one more element for every program that is compiled."""
    import jax

    events: list[str] = []

    def listen(event: str, duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.clear_event_listeners()


@pytest.fixture(autouse=True)
def _is_the_same_in_every_order() -> None:
    """Let a test draw the same numbers, and its layers get the same names, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    if keras := sys.modules.get("keras"):
        keras.backend.clear_session(free_memory=False)


@pytest.fixture(autouse=True)
def _starts_processes_only_if_marked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail a test that starts a process and is not marked so: it would slow down those that run beside it."""
    started: list[object] = []
    if not any(map(request.node.get_closest_marker, _MAY_START)):
        start = subprocess.Popen.__init__

        def noted(self: Any, args: Any, *more: Any, **named: Any) -> None:
            started.append(args)
            start(self, args, *more, **named)

        monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    yield
    if started:
        pytest.fail(f"The test started {started}: mark it by pytest.mark.processes.")


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaks environment variables, threads, child processes, open files or sockets."""
    before = {what: look() for what, look in _LOOKS.items()}
    environment = dict(os.environ)
    yield
    leaks = {}
    for what, look in _LOOKS.items():
        deadline = time.monotonic() + _GRACE_SECS
        while (left := look() - before[what]) and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        if left:
            leaks[what] = sorted(map(str, left))
    os.environ.clear()
    os.environ.update(environment)
    if type(signal.getsignal(signal.SIGINT)).__name__ == "_SameCtrlC":
        # It stays for a second after a watch that got Ctrl-C, also into the next test.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if leaks:
        pytest.fail("The test left behind " + "; ".join(f"{k}: {', '.join(v)}" for k, v in leaks.items()))


def _variables() -> set[object]:
    return {item for item in os.environ.items() if item[0] not in _EXPECTED_VARIABLES}


def _threads() -> set[object]:
    # One waits for the end of the program, once a test has been a task of a job.
    return {thread for thread in threading.enumerate() if thread.is_alive() and thread.name != "muster-end"}


def _children() -> set[object]:
    """The processes that were started from here and have not been waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case: there is none
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if int(fields.split()[1]) == os.getpid():
            found.add(f"{name})")
    return found


def _open_files() -> set[object]:
    """Sockets, and files that have a place in the file system."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # the listing's own descriptor
        if target.startswith("socket:") or (target[0] == "/" and not target.startswith(("/dev/", "/proc/"))):
            found.add(f"{descriptor} -> {target}")
    return found


_LOOKS: dict[str, Callable[[], set[object]]] = {
    "environment variables": _variables,
    "threads": _threads,
    "child processes": _children,
    "open files": _open_files,
}
