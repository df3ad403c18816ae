"""Ctrl-C that a watch raises where Python drops it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

_PROGRAM = """
import gc, signal, time
from muster import lifecycle
from muster.lifecycle import INTERRUPTS, SignalWatch, _interrupts

lifecycle.install()

def dropped():
    def in_a_collection(phase, info):
        gc.callbacks.remove(in_a_collection)
        signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(in_a_collection)
    gc.collect()
    print("goes on", flush=True)

def steps():
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with INTERRUPTS:
            time.sleep(0.02)

{}
print("swallowed")
"""


@pytest.mark.samples("fit", "a wait")
@pytest.mark.parametrize(
    "program",
    [
        "with INTERRUPTS.watched(): dropped(); steps()",
        "with INTERRUPTS.watched(): dropped(); time.sleep(30)",
        "with INTERRUPTS.watched(): dropped()\ntime.sleep(30)",
        "with SignalWatch().watched() as signals: signals.waiting = True; dropped(); time.sleep(30)",
        "with SignalWatch().watched() as signals: signals.waiting = True; dropped()\ntime.sleep(30)",
        "_interrupts.SAME_SECS = 0.0\n"
        "with SignalWatch().watched(): signal.raise_signal(signal.SIGINT); dropped(); time.sleep(30)",
    ],
    ids=["steps of fit", "fit", "the end of fit", "a wait", "the end of a wait", "the second one"],
)
def test_it_is_raised_again(program):
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(program)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (-2, "goes on\n"), done.stderr
    assert "ignored" not in done.stderr
