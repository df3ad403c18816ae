"""Being a guest in a process: what is taken back, what ends with the block, and how preemption is told."""

import atexit
import signal
import sys
import threading

import pytest

from muster import lifecycle
from muster.distribute import embedded, preempt
from muster.lifecycle import Terminated


@pytest.fixture
def hooked():
    """The process as muster has it, and afterwards again."""
    lifecycle.install()
    yield
    lifecycle.install()


def test_what_was_changed_is_taken_back_and_nothing_is_changed_in_the_block(hooked):
    assert type(sys.excepthook).__module__.startswith("muster")
    count = atexit._ncallbacks()
    with embedded():
        before = sys.excepthook, sys.unraisablehook
        assert not any(getattr(each, "__module__", "").startswith("muster") for each in before)
        assert atexit._ncallbacks() == count
        lifecycle.install()
        lifecycle.watch_program_end()
        assert (sys.excepthook, sys.unraisablehook) == before
        assert atexit._ncallbacks() == count
        assert not any(thread.name == "muster-end" for thread in threading.enumerate())


def test_what_ends_with_the_block_is_told_how_and_ends_in_reverse(hooked):
    ended = []
    with embedded():
        assert lifecycle.at_block_end(lambda error: ended.append(("first", error)))
        assert lifecycle.at_block_end(lambda error: ended.append(("last", error)))
    assert ended == [("last", None), ("first", None)]
    error = LookupError("a")

    def fail():
        with embedded():
            lifecycle.at_block_end(ended.append)
            raise error

    with pytest.raises(LookupError):
        fail()
    assert ended[2:] == [error]
    assert not lifecycle.at_block_end(ended.append)


def test_what_ends_after_one_that_fails_is_told_its_error(hooked):
    ended, error = [], LookupError("a")

    def fail(_):
        raise error

    def guest():
        with embedded():
            for each in (ended.append, fail, lambda _: True):
                lifecycle.at_block_end(each)

    with pytest.raises(LookupError):
        guest()
    assert ended == [error]


def test_what_is_registered_again_ends_once_and_as_the_last_one(hooked):
    ended = []
    ends = [lambda error, name=name: ended.append(name) for name in "ab"]
    with embedded():
        for each in (*ends, ends[0]):
            lifecycle.at_block_end(each)
    assert ended == ["a", "b"]


def test_a_process_is_one_task(hooked):
    with embedded(), pytest.raises(RuntimeError, match="takes part in a job already"):
        with embedded():
            pass
    with embedded():
        pass


def test_preemption_is_noted_by_watches_of_any_thread_and_forgotten_with_the_block(hooked):
    watch = lifecycle.SignalWatch()
    with pytest.raises(RuntimeError, match="send it SIGTERM"):
        preempt()
    with embedded():
        inside, told = threading.Event(), threading.Event()

        def work():
            with watch.watched():
                inside.set()
                told.wait(30)

        thread = threading.Thread(target=work)
        thread.start()
        inside.wait(30)
        preempt()
        told.set()
        thread.join()
        assert watch.received == signal.SIGTERM
        with pytest.raises(Terminated), lifecycle.SignalWatch().watched() as later:
            later.raise_received()
        with pytest.raises(Terminated), lifecycle.INTERRUPTS:
            pass  # a step of fit
        with pytest.raises(ZeroDivisionError), lifecycle.PREEMPTION:
            raise ZeroDivisionError
    with lifecycle.INTERRUPTS, lifecycle.SignalWatch().watched() as new:
        assert new.received is None
