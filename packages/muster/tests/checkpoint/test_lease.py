"""Leases: one writer a directory, which a crash releases."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import CheckpointError, DirectoryInUseError
from muster.checkpoint import Checkpointer, WriterWatch, _lease
from muster.checkpoint._lease import FILE_NAME, Lease

_HOLD = """
import os, sys, time
from muster.checkpoint._lease import Lease
lease = Lease(sys.argv[1])
child = os.fork() if sys.argv[2] == "fork" else None
if child != 0:
    print(child or os.getpid(), flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def holder(directory: Path, how: str = "") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that has the lease; yields it, and the number that it prints."""
    command = [sys.executable, "-c", _HOLD, str(directory), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lease, "RENEW_SECS", 0.05)
    monkeypatch.setattr(_lease, "EXPIRE_SECS", 1.0)
    monkeypatch.setattr(_lease, "_LOOK_SECS", 0.02)


def no_locks(monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOTSUP) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)


def leave_record(directory: Path, **changes: Any) -> None:
    """Write what a writer on another machine leaves that was killed."""
    record = {"token": "t", "machine": "other", "host": "other-host", "pid": 7, "since": "noon", "count": 1}
    (directory / FILE_NAME).write_text(json.dumps(record | changes))


@pytest.mark.processes
def test_the_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with holder(tmp_path) as (_, pid):
        with pytest.raises(DirectoryInUseError, match=rf"being written by process {pid} on .*, since 20"):
            Checkpointer(tmp_path)
        assert WriterWatch(tmp_path).is_writing()


@pytest.mark.processes
def test_a_writer_that_is_killed_releases_its_directory(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / FILE_NAME).exists()
        assert not WriterWatch(tmp_path).is_writing()
        Lease(str(tmp_path)).close()
    assert os.listdir(tmp_path) == []


@pytest.mark.processes
def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    with holder(tmp_path, "fork") as (process, child):
        try:
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.kill(child, 0)
            Lease(str(tmp_path)).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_process_has_one_writer_a_directory(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "a"), Checkpointer(tmp_path / "b"):
        with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()} on "):
            Checkpointer(tmp_path / "a")
    for name in ("a", "b"):
        Checkpointer(tmp_path / name).close()


def test_close_lets_the_next_one_write(tmp_path: Path) -> None:
    watch = WriterWatch(tmp_path)
    for _ in range(2):
        assert not watch.is_writing()
        lease = Lease(str(tmp_path))
        assert watch.is_writing()
        lease.close()
        lease.close()
    assert not watch.is_writing()
    assert os.listdir(tmp_path) == []


def test_many_writers_take_turns(tmp_path: Path) -> None:
    """None of them has it while another does, and none is refused for long."""
    inside, taken = [], []

    def write() -> None:
        for _ in range(5):
            while True:
                try:
                    lease = Lease(str(tmp_path))
                    break
                except DirectoryInUseError:
                    continue
            inside.append(None)
            assert len(inside) == 1
            taken.append(None)
            inside.pop()
            lease.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(taken) == 20


def test_a_file_that_its_writer_deletes_meanwhile_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, look = tmp_path / FILE_NAME, os.stat

    def stat(place: Any, **how: Any) -> os.stat_result:
        seen = look(place, **how)
        if place == str(path):
            path.unlink()
            monkeypatch.setattr(os, "stat", look)
        return seen

    path.touch()
    monkeypatch.setattr(os, "stat", stat)
    Lease(str(tmp_path)).close()


@pytest.mark.parametrize("locks", [True, False])
def test_what_another_machine_left_is_taken_once_it_stands_still(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, locks: bool
) -> None:
    fast(monkeypatch)
    leave_record(tmp_path)
    if not locks:
        no_locks(monkeypatch)
    watch = WriterWatch(tmp_path)
    assert watch.is_writing()
    until(lambda: not watch.is_writing())
    before = time.monotonic()
    Lease(str(tmp_path)).close()
    assert time.monotonic() - before >= 1.0
    assert "was written by process 7 on other-host, since noon" in caplog.text


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOLCK])
def test_a_writer_that_no_lock_shows_is_respected_while_it_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    fast(monkeypatch)
    no_locks(monkeypatch, code)
    lease, watch = Lease(str(tmp_path)), WriterWatch(tmp_path)
    for _ in range(2):
        with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()} on "):
            Lease(str(tmp_path))
    assert watch.is_writing()
    lease.close()
    assert not watch.is_writing()


def test_a_writer_that_stood_still_notices_who_took_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fast(monkeypatch)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {}, {}, wait=True)
        leave_record(tmp_path)

        def lost() -> bool:
            with contextlib.suppress(DirectoryInUseError):
                checkpointer._lease.check()
                return False
            return True

        until(lost)
        with pytest.raises(CheckpointError, match="taken over by process 7 on other-host, since noon"):
            checkpointer.save(2, {}, {})
    assert json.loads((tmp_path / FILE_NAME).read_text())["token"] == "t"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": 1}', '{"token": "t", "other": 1}'])
def test_a_file_of_something_else_is_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    lease = Lease(str(tmp_path))
    assert json.loads((tmp_path / FILE_NAME).read_text()) == dataclasses.asdict(lease._record)
    lease.close()
