"""Reading ahead changes nothing but when, and its thread ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from dataset_model import read

from muster.data import AUTOTUNE, Dataset

pytestmark = pytest.mark.alone


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "muster-prefetch"]


@pytest.mark.parametrize("size", [0, 1, 3, 1000, AUTOTUNE])
def test_prefetch_changes_nothing(size: int) -> None:
    assert read(Dataset.range(50).prefetch(size)) == list(range(50))
    assert read(Dataset.range(50).prefetch(size).batch(7).prefetch(size)) == read(Dataset.range(50).batch(7))


def test_it_reads_ahead_and_no_further() -> None:
    pulled: list[int] = []
    reached = threading.Event()

    def generate() -> Iterator[int]:
        for i in range(100):
            pulled.append(i)
            if i == 4:
                reached.set()
            yield i

    with Dataset.from_generator(generate, output_types=np.int64).prefetch(3).iterator() as iterator:
        next(iterator)
        assert reached.wait(10)
        # One given out, three waiting, one in the thread's hand.
        assert max(pulled) == 4
        assert iterator.position["elements"] == 1


def test_the_thread_ends_with_the_elements_and_on_close() -> None:
    iterator = Dataset.range(3).prefetch(1).iterator()
    assert not _threads()
    assert [int(x) for x in iterator] == [0, 1, 2]
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.close()
    assert not _threads()
    endless = Dataset.range(3).repeat().prefetch(2)
    with endless.iterator() as other:
        next(other)
        assert len(_threads()) == 1
    assert not _threads()
    other.close()
    with pytest.raises(ValueError, match="closed"):
        next(other)


def test_the_thread_ends_when_the_loop_is_left() -> None:
    for element in Dataset.range(3).repeat().prefetch(2):
        assert _threads()
        if element == 2:
            break
    gc.collect()
    assert not _threads()


def test_errors_come_in_order_and_once() -> None:
    def generate() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("the disk")

    iterator = Dataset.from_generator(generate, output_types=np.int64).prefetch(10).iterator()
    assert [int(next(iterator)), int(next(iterator))] == [1, 2]
    with pytest.raises(OSError, match="the disk") as info:
        next(iterator)
    assert any(entry.name == "generate" for entry in info.traceback)
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.close()


def test_a_generator_is_closed_by_the_thread_that_runs_it() -> None:
    closed_by: list[str] = []

    def generate() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed_by.append(threading.current_thread().name)

    with Dataset.from_generator(generate, output_types=np.int64).prefetch(2).iterator() as iterator:
        next(iterator)
    assert closed_by == ["muster-prefetch"]


@pytest.mark.processes
def test_a_process_with_an_open_iterator_ends() -> None:
    code = """
from muster.data import Dataset
iterator = Dataset.range(3).repeat().prefetch(2).iterator()
next(iterator)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.processes
def test_ctrl_c_while_waiting() -> None:
    code = """
import threading
from muster.data import Dataset
def generate():
    yield 1
    threading.Event().wait(60)
    yield 2
iterator = Dataset.from_generator(generate, output_types="int64").prefetch(2).iterator()
try:
    next(iterator)
    print("waiting", flush=True)
    next(iterator)
except KeyboardInterrupt:
    print("interrupted", iterator.position["elements"], flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted 1\n"
