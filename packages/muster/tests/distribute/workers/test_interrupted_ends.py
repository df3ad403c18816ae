"""Ctrl-C while a worker ends: wherever it comes, the exit code tells of it, and so do the others."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# A roster, a worker and JAX that note what is called; two of their calls get Ctrl-C before they return.
_PROGRAM = """
import atexit, signal, threading
import jax
from muster.lifecycle import log_interrupt
from muster.distribute.workers._cluster_workers import JobEnding

interrupted, again, agreed, program_end = {places!r}

class Calls:
    def __getattr__(self, name):
        def call(*args, **kwargs):
            print(name, *args[:1])
            if name in (interrupted, again):
                signal.raise_signal(signal.SIGINT)
            return True
        return call

jax.distributed = Calls()
ending = JobEnding(Calls(), ("worker 0", "worker 1"))
ending.workers = Calls()
ending.agreed = agreed
def interrupt():
    threading.main_thread().join()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

if program_end == "before":
    atexit.register(signal.raise_signal, signal.SIGINT)
elif program_end == "waiting for":
    threading.Thread(target=interrupt).start()
elif program_end == "with":
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as exc:
        ending.fail(exc)
elif program_end == "by":
    raise KeyboardInterrupt
elif program_end == "told":
    with log_interrupt("Interrupted while evaluating."):
        raise KeyboardInterrupt
elif program_end == "because of":
    raise LookupError("no data")
"""


def end(interrupted="", again="", agreed=False, program_end=""):
    """The exit code of a program, what it calls while it ends, and its errors."""
    program = _PROGRAM.format(places=(interrupted, again, agreed, program_end))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


WELL = ["announce end", "lookup worker 0", "lookup worker 1", "is_initialized", "shutdown", "done", "close"]


def test_a_program_that_nobody_interrupts_ends_together_with_the_others():
    # Others hear of the end before the connection breaks that they could wait at.
    assert end() == (0, [WELL[0], "close", *WELL[1:]], "")


@pytest.mark.samples("done", "close")
@pytest.mark.parametrize("place", ["announce", "lookup", "is_initialized", "shutdown", "done", "close"])
def test_ctrl_c_at_the_end_is_told_to_the_others_and_to_who_looks_at_the_exit_code(place):
    code, calls, errors = end(place)
    assert code == 130, (calls, errors)
    assert calls[-2:] == ["fail ", "close"]
    assert errors.endswith("KeyboardInterrupt\n")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["announce", "lookup", "is_initialized", "shutdown", "done", "close"])
def test_ctrl_c_at_the_end_is_no_failure_if_all_have_agreed_to_end(place):
    code, calls, _ = end(place, agreed=True)
    assert code == 130
    assert calls[-2:] == ["done", "close"]
    assert not any("fail" in call for call in calls)


@pytest.mark.slow
@pytest.mark.parametrize("again", ["fail", "close"])
@pytest.mark.parametrize(
    ("program_end", "interrupted", "expected"), [("", "lookup", 130), ("by", "", 130), ("because of", "", 1)]
)
def test_ctrl_c_once_more_changes_nothing(program_end, interrupted, expected, again):
    code, calls, errors = end(interrupted, again, program_end=program_end)
    assert code == expected, (calls, errors)
    assert "Error in sys.excepthook" not in errors


@pytest.mark.slow
def test_a_program_that_calmly_ends_after_ctrl_c_has_ended_its_training_tells_of_it():
    code, calls, _ = end(program_end="with")
    assert (code, calls) == (130, ["fail ", "close"])


@pytest.mark.slow
@pytest.mark.parametrize("program_end", ["before", "waiting for"])
def test_ctrl_c_between_the_end_of_the_program_and_that_of_the_worker_counts(program_end):
    code, calls, _ = end(program_end=program_end)
    assert (code, calls) == (130, ["fail ", "close"])


@pytest.mark.slow
def test_ctrl_c_of_which_a_line_tells_ends_the_worker_at_once():
    assert end(program_end="told") == (130, ["fail ", "close"], "Interrupted while evaluating.\n")
