"""Start a job from a notebook: a function runs in each of its tasks."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster.engines import this_machine
from muster.launch._plan import JobShape, check_room

TASK = Path(__file__).with_name("_notebook_task.py")


def notebook_launcher(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    workers: int = 2,
    chief: bool = False,
    ps: int = 0,
    evaluator: bool = False,
    restarts: int = 0,
    devices_per_worker: int | None = None,
    oversubscribe: bool = False,
) -> Any:
    """Run a function in several processes on this machine, as ``muster run`` runs a program.

    What the tasks print appears here, line by line, behind the task's name. Interrupting the cell ends the
    job, as Ctrl-C ends ``muster run``: an Estimator saves first. The end of this process does so, too.

    Args:
        function: Called in each task with ``args``. It builds its strategy itself, and may be defined in the
            notebook: it is pickled by value, with what it uses of the notebook. Imports belong into it.
        args: Its arguments.
        workers: The number of tasks of type ``worker``.
        chief: Whether there is a ``chief``.
        ps: The number of parameter servers.
        evaluator: Whether there is an ``evaluator``.
        restarts: How often tasks are started again after a failure.
        devices_per_worker: GPUs of each training task, or, where there are none, virtual devices of the CPU.
            None: all GPUs in equal parts, or one device of the CPU.
        oversubscribe: Whether to start more tasks than the cores or the memory of this machine hold.

    Returns:
        What the function returns in the chief, or else in worker 0.

    Raises:
        ClusterError: A number of tasks is wrong, or this machine is too small for them; nothing was started.
        RuntimeError: The job failed; its output says why.
        KeyboardInterrupt: The cell was interrupted; the job has ended.
    """
    from muster._pickle import dumps  # the commands need not wait for it

    shape = JobShape(
        workers=workers, chief=chief, ps=ps, evaluator=evaluator, devices_per_worker=devices_per_worker
    )
    if not oversubscribe and sys.platform == "linux":  # elsewhere the command says that it needs Linux
        check_room(len(shape.tasks), this_machine(os.environ))
    options = ["--workers", str(workers), "--ps", str(ps), "--restarts", str(restarts)]
    options += ["--chief"] * chief + ["--evaluator"] * evaluator
    options += ["--oversubscribe"] * oversubscribe
    if devices_per_worker is not None:
        options += ["--devices-per-worker", str(devices_per_worker)]
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        given, result = Path(folder, "function.pkl"), Path(folder, "result.pkl")
        given.write_bytes(dumps((function, tuple(args))))
        code = _run(
            ["--ends-with-input", *options, str(TASK), str(given), str(result), str(shape.training[0])]
        )
        if code == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        if code:
            raise RuntimeError(f"The job ended with exit code {code}: its last lines above say why.")
        return pickle.loads(result.read_bytes())


def _run(options: Sequence[str]) -> int:
    """Run ``muster run`` and show what it prints; return its exit code."""
    command = [sys.executable, "-m", "muster", "run", *options]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # which ends with this process, however that ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the kernel's Ctrl-C is passed on here, once
    )
    with process:
        while True:
            try:
                for line in process.stdout or ():
                    print(line, end="", flush=True)
                return process.wait()
            except KeyboardInterrupt:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
