"""A worker that trains as a guest: in a thread of a process that goes on. See test_embedded_multiprocess.py.

Argument: JSON: what bad_job_child.py takes, and any of kill and stop (this process does so to itself at that
step), preempt (there the main thread says that the process will be ended), rounds (how often it trains).
"""

import atexit
import json
import os
import signal
import sys
import threading

import bad_job_child

import muster.distribute
from muster.estimator import SessionRunHook

reached = threading.Event()


class Act(SessionRunHook):
    def __init__(self, options):
        self.options = options

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step
        if step == self.options.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == self.options.get("stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == self.options.get("preempt"):
            reached.set()


def train(options):
    try:
        with muster.distribute.embedded():
            bad_job_child.main(options)
            print(f"hooks {sys.excepthook is sys.__excepthook__} {registered}\n", end="", flush=True)
        print("left the job\n", end="", flush=True)
    except BaseException as exc:
        print(f"raised {type(exc).__name__} {exc}\n", end="", flush=True)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    registered = []
    register = atexit.register
    # What muster registers in the block; not what was, when Keras was imported.
    atexit.register = lambda call, *args, **kwargs: (
        registered.append(call.__qualname__) if call.__module__.startswith("muster") else None,
        register(call, *args, **kwargs),
    )[1]
    bad_job_child.MORE_HOOKS.append(Act(options))
    for _ in range(options.get("rounds", 1)):
        thread = threading.Thread(target=train, args=[options])
        thread.start()
        while thread.is_alive():
            if reached.wait(0.05):
                reached.clear()
                options.pop("preempt")
                muster.distribute.preempt()
    print("the process goes on\n", end="", flush=True)
