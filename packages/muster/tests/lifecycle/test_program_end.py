"""Programs that end, and leave threads behind."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# The times are shortened; else it is a program as users write them.
PROGRAM = """
import concurrent.futures, logging, sys, threading, time
from muster import lifecycle
from muster.lifecycle import _program_end
logging.basicConfig(level=logging.INFO)
_program_end._SAY_SECS, _program_end._END_SECS = 0.2, {end}
lifecycle.watch_program_end()
lifecycle.watch_program_end()
def left_behind():
    time.sleep({secs})
{start}
sys.exit(7)
"""


def end_of(program):
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=60)
    return ended.returncode, ended.stderr


THREAD = 'threading.Thread(target=left_behind, name="uploads").start()'
POOL = 'concurrent.futures.ThreadPoolExecutor(thread_name_prefix="uploads").submit(left_behind)'


@pytest.mark.parametrize("start", [THREAD, POOL], ids=["thread", "pool"])
def test_the_process_ends_without_a_thread_that_never_does(start):
    code, log = end_of(PROGRAM.format(end=1.0, secs=600, start=start))
    assert code == 1
    assert "threads that it has left keep the process: uploads" in log
    assert log.index("This process ends, though threads run") < log.index("in left_behind")


@pytest.mark.parametrize("secs", [0.0, 1.0])
def test_a_thread_that_ends_leaves_the_exit_code_alone(secs):
    code, log = end_of(PROGRAM.format(end=600.0, secs=secs, start=THREAD))
    assert code == 7
    assert log.count("keep the process: uploads.") <= 10
    assert ("uploads" in log) == (secs > 0)


# Something holds these modules, as the caches of JAX do, so that Python takes their names away one by one.
LEFT_OPEN = """
import contextlib, ctypes, sys
for each in (sys.modules["__main__"], contextlib):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
from contextlib import ExitStack
from muster.lifecycle import closed_at_exit
@closed_at_exit
def numbers(end):
    with ExitStack() as stack:
        stack.callback(print, "closed")
        yield from range(end)
left = numbers(2)
print(next(left), *numbers(1))
"""


def test_a_generator_that_is_left_is_closed_in_time():
    ended = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split("\n") == ["closed", "0 0", "closed", ""]
