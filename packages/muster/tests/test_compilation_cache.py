"""The compilation cache without processes: its size, its entries, and the function of JAX it replaces."""

import inspect
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from jax._src import compiler

from muster import _compilation_cache as cache
from muster._paths import require_trusted


class Executable:
    def serialize(self) -> bytes:
        return b"instructions"


@pytest.fixture
def directory(tmp_path: Path) -> Any:
    """A directory that JAX believes to be its cache's, which nothing is compiled for."""
    config: Any = jax.config
    before = config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def entry(root: Path, name: str, size: int, age: float) -> Path:
    path = root / "version" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age,) * 2)
    return path


def write(writer: Any, key: str = "jit_f-0", callbacks: tuple[object, ...] = ()) -> None:
    writer(key, 1.0, "jit_f", None, Executable(), callbacks)


def fail(*args: object) -> None:
    pytest.fail("JAX's own function was called")


def test_jax_still_has_the_functions_that_are_replaced() -> None:
    """If this fails, workers other than the first compile at every start: see ``_compilation_cache``."""
    assert tuple(inspect.signature(compiler._cache_write).parameters) == cache._WRITE_ARGUMENTS
    compiles = compiler._compile_and_write_cache
    assert tuple(inspect.signature(compiles).parameters) == cache._COMPILE_ARGUMENTS


def test_the_entries_used_longest_ago_make_room(tmp_path: Path) -> None:
    old, middle, new = (entry(tmp_path, f"{age}-cache", 100, age) for age in (30, 20, 10))
    cache.make_room(tmp_path, 250)
    assert [path.exists() for path in (old, middle, new)] == [False, True, True]


def test_it_is_turned_off_for_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(jax_enable_compilation_cache=True, jax_compilation_cache_dir=None)
    monkeypatch.setattr(cache, "jax", SimpleNamespace(config=config))
    cache.use_compilation_cache(False)
    try:
        thread = threading.Thread(target=cache.keep_compiled, args=(str(tmp_path),))
        thread.start()
        thread.join()
    finally:
        cache.use_compilation_cache(True)
    assert not list(tmp_path.iterdir())


def test_what_a_crash_left_behind_is_removed(tmp_path: Path) -> None:
    empty = entry(tmp_path, "empty-cache", 0, 0)
    killed, in_use = (entry(tmp_path, f"k-cache.{age}", 10, age) for age in (7200, 10))
    cache.make_room(tmp_path, 1000)
    assert [path.exists() for path in (empty, killed, in_use)] == [False, False, True]


def test_any_process_writes_an_entry_that_jax_reads(directory: Path) -> None:
    write(cache._CacheWriter(str(directory), fail))
    content = cache.compilation_cache.decompress_executable((directory / "jit_f-0-cache").read_bytes())
    assert cache.compilation_cache.extract_executable_and_time(content) == (b"instructions", 1)
    assert os.listdir(directory) == ["jit_f-0-cache"]


def test_a_program_with_callbacks_is_not_written(directory: Path) -> None:
    write(cache._CacheWriter(str(directory), fail), callbacks=(print,))
    assert os.listdir(directory) == []


def test_a_directory_chosen_later_is_left_to_jax(directory: Path) -> None:
    given: list[str] = []
    write(cache._CacheWriter("/another", lambda key, *_: given.append(key)))
    assert given == ["jit_f-0"]
    assert os.listdir(directory) == []


def test_a_disk_that_takes_no_more_is_logged_once(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    writer = cache._CacheWriter(str(directory), fail)
    with caplog.at_level(logging.WARNING):
        write(writer)
        write(writer, "jit_f-1")
    assert [record.getMessage() for record in caplog.records] == [
        "What is compiled from now on is not kept for the next run: [Errno 28] No space left on device"
    ]
    assert os.listdir(directory) == []


def test_a_reader_never_sees_half_an_entry(tmp_path: Path) -> None:
    path, size, ended = tmp_path / "jit_f-0-cache", 2**20, threading.Event()
    cache._write(path, bytes(size))

    def rewrite() -> None:
        for _ in range(100):
            cache._write(path, bytes(size))
        ended.set()

    thread = threading.Thread(target=rewrite)
    thread.start()
    sizes = set()
    while not ended.is_set():
        sizes.add(len(path.read_bytes()))
    thread.join()
    assert sizes == {size}


def test_a_directory_that_others_may_write_to_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    require_trusted(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod it to 700"):
        require_trusted(tmp_path)


class Compiler:
    """Compiles by writing an entry, once it may; counts how often."""

    def __init__(self, directory: Path, writes: bool = True) -> None:
        self.directory, self.writes = directory, writes
        self.count = 0
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *arguments: object) -> str:
        self.count += 1
        self.began.set()
        assert self.may_end.wait(60)
        if self.writes:
            cache._write(self.directory / "jit_f-0-cache", b"compiled")
        return "compiled"


def compile_twice_at_once(compiles: Compiler, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have two threads, as two processes do, ask for one program; the second while the first compiles."""

    def read(*arguments: object) -> tuple[str, int]:
        return (compiles.directory / "jit_f-0-cache").read_text() + " before", 1

    waits = threading.Event()

    def is_locked(descriptor: int, original: Callable[[int], bool] = cache._is_locked) -> bool:
        locked = original(descriptor)
        if not locked:
            waits.set()
        return locked

    monkeypatch.setattr(compiler, "_cache_read", read)
    monkeypatch.setattr(cache, "_is_locked", is_locked)
    one_compiles, got = cache._OneCompiles(str(compiles.directory), compiles), []

    def ask() -> None:
        got.append(one_compiles(None, None, None, None, (), "jit_f", "jit_f-0"))

    first, second = threading.Thread(target=ask), threading.Thread(target=ask)
    first.start()
    assert compiles.began.wait(60)
    second.start()
    assert waits.wait(60)
    compiles.may_end.set()
    for thread in (first, second):
        thread.join(60)
    return sorted(got)


def test_of_two_that_need_a_program_one_compiles_and_the_other_loads_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles = Compiler(directory)
    assert compile_twice_at_once(compiles, monkeypatch) == ["compiled", "compiled before"]
    assert compiles.count == 1
    assert os.listdir(directory) == ["jit_f-0-cache"]


def test_what_the_first_cannot_keep_the_other_compiles_too(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles = Compiler(directory, writes=False)
    assert compile_twice_at_once(compiles, monkeypatch) == ["compiled", "compiled"]
    assert compiles.count == 2
    assert os.listdir(directory) == []


def test_nobody_waits_longer_than_is_patient_nor_for_a_folder_without_locks(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles = Compiler(directory)
    compiles.may_end.set()
    one_compiles = cache._OneCompiles(str(directory), compiles)
    monkeypatch.setattr(cache, "_PATIENCE_SECS", 0.0)
    with cache._turn(directory / "jit_f-0-cache.turn") as is_first:
        assert is_first
        assert one_compiles(None, None, None, None, (), "jit_f", "jit_f-0") == "compiled"
    with cache._turn(directory / "missing" / "jit_f-0-cache.turn") as is_first:
        assert is_first


def test_an_error_of_the_compiler_frees_the_turn(directory: Path) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("no memory")

    one_compiles = cache._OneCompiles(str(directory), fails)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no memory"):
            one_compiles(None, None, None, None, (), "jit_f", "jit_f-0")
    assert os.listdir(directory) == []


def test_who_waits_for_another_says_for_which_process(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "_SILENT_WAIT_SECS", 0.0)
    monkeypatch.setattr(cache, "_PATIENCE_SECS", 0.05)
    turn = directory / "jit_f-0-cache.turn"
    with cache._turn(turn), cache._turn(turn) as is_first:
        assert not is_first
    (said,) = (record.getMessage() for record in caplog.records)
    assert f"Waiting for process {os.getpid()}, which compiles the same program" in said


def test_a_long_compilation_is_said(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "_SILENT_COMPILATION_SECS", 0.0)
    caplog.set_level(logging.INFO, "muster")
    said = threading.Event()
    monkeypatch.setattr(cache._log, "handle", lambda record: (caplog.handler.emit(record), said.set()))

    def compiles(*arguments: object) -> str:
        assert said.wait(60)
        return "compiled"

    one_compiles = cache._OneCompiles(str(directory), compiles)
    assert one_compiles(None, None, None, None, (), "jit_f", "jit_f-0") == "compiled"
    assert "XLA has been compiling jit_f for 0 s." in caplog.text


def test_a_process_that_was_forked_meanwhile_keeps_nobody_waiting(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = directory / "jit_f-0-cache.turn"
    opened = []

    def is_locked(descriptor: int, original: Callable[[int], bool] = cache._is_locked) -> bool:
        opened.append(os.dup(descriptor))  # as fork does
        return original(descriptor)

    monkeypatch.setattr(cache, "_is_locked", is_locked)
    with cache._turn(turn):
        waits = os.open(turn, os.O_RDWR)
    monkeypatch.undo()
    try:
        assert cache._is_locked(waits)
    finally:
        for descriptor in (waits, *opened):
            os.close(descriptor)
