"""Ctrl-C, wherever it comes."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import gc, signal, time
import muster

def in_a_collection(phase, info):
    gc.callbacks.remove(in_a_collection)
    signal.raise_signal(signal.SIGINT)

class InAFinalizer:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

{drop}
print("goes on", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "drop", ["gc.callbacks.append(in_a_collection); gc.collect()", "InAFinalizer()"], ids=["gc", "finalizer"]
)
def test_ctrl_c_ends_a_program_also_where_python_drops_it(drop):
    program = [sys.executable, "-c", PROGRAM.format(drop=drop)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert ended.returncode == -signal.SIGINT
    assert ended.stdout == "goes on\n"
    assert ended.stderr.endswith("KeyboardInterrupt\n")
