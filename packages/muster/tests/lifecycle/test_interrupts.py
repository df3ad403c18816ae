"""Ctrl-C, wherever it comes."""

import signal
import subprocess
import sys

import pytest

from muster.lifecycle import _interrupts

pytestmark = pytest.mark.processes

PROGRAM = """
import gc, signal, time
from muster import lifecycle
from muster.lifecycle import _interrupts

lifecycle.install()
_interrupts._AGAIN_SECS = {again}

def in_a_collection(phase, info):
    gc.callbacks.remove(in_a_collection)
    signal.raise_signal(signal.SIGINT)

class InAFinalizer:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

{drop}
time.sleep(60)
"""


# In no time: as on a machine so busy that Python is still where it drops exceptions by then.
@pytest.mark.parametrize("again", [0.05, 0.0], ids=["soon", "at once"])
@pytest.mark.parametrize(
    "drop", ["gc.callbacks.append(in_a_collection); gc.collect()", "InAFinalizer()"], ids=["gc", "finalizer"]
)
def test_ctrl_c_ends_a_program_also_where_python_drops_it(drop, again):
    program = [sys.executable, "-c", PROGRAM.format(drop=drop, again=again)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")


ENDING = """
import atexit, gc, signal, sys, threading

def interrupted():
    signal.raise_signal(signal.SIGINT)

def in_a_collection(phase, info):
    gc.callbacks.remove(in_a_collection)
    signal.raise_signal(signal.SIGINT)

def collected():
    gc.callbacks.append(in_a_collection)
    gc.collect()

def early():
    print("early", flush=True)
    if {place!r} == "before muster's":
        interrupted()

atexit.register(early)
from muster import lifecycle

lifecycle.install()

def late():
    if {place!r} == "atexit":
        interrupted()
    if {place!r} == "a collection in atexit":
        collected()

atexit.register(print, "later", flush=True)
atexit.register(late)
main = threading.main_thread()
if {place!r} == "a thread's end":
    def waits():
        main.join()
        signal.pthread_kill(main.ident, signal.SIGINT)
    threading.Thread(target=waits).start()
elif {place!r} == "a pool's end":
    from concurrent.futures import ThreadPoolExecutor
    ended = threading.Event()
    ThreadPoolExecutor().submit(lambda: (ended.wait(), signal.pthread_kill(main.ident, signal.SIGINT)))
    threading._register_atexit(ended.set)
elif {place!r} == "the last collection":
    collected()
{end}
"""


@pytest.mark.parametrize(
    "place",
    [
        "atexit",
        "a collection in atexit",
        "before muster's",
        "a thread's end",
        "a pool's end",
        "the last collection",
    ],
)
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "sys.exit(3)"])
def test_ctrl_c_while_a_program_ends_is_seen_in_its_exit_code(place, end):
    program = [sys.executable, "-c", ENDING.format(place=place, end=end)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert ended.returncode == -signal.SIGINT, ended
    assert "later\n" in ended.stdout
    assert "Interrupted while the program ended." in ended.stderr


def test_what_ends_a_wait_is_no_second_ctrl_c(monkeypatch):
    """The first may be handled between the look whether it was and the next signal."""
    before = signal.getsignal(signal.SIGURG)
    sent, handled = [], iter([False, False, True])
    monkeypatch.setattr(_interrupts.signal, "pthread_kill", lambda thread, number: sent.append(number))
    monkeypatch.setattr(_interrupts.time, "sleep", lambda secs: None)
    try:
        wake = _interrupts._wake_signal()
        _interrupts._Dropped()._raise_again(lambda: next(handled), wake)
        assert sent == [signal.SIGINT, signal.SIGURG, signal.SIGURG]
        signal.signal(signal.SIGURG, lambda number, frame: None)  # the program's
        assert _interrupts._wake_signal() == signal.SIGINT
    finally:
        signal.signal(signal.SIGURG, before)
