"""``muster run``: its options and their checks."""

import argparse
import functools
import math
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from muster._errors import ClusterError
from muster.launch._options import add_job_options, add_program_options, folder, program_of, shape_of
from muster.launch._plan import TASK_MIB, TASKS_A_CORE

_GRACE_SECS = 4.0

_DESCRIPTION = """\
Run a training program as the tasks of a job on this machine: one process a task. Each gets its place in
TF_CONFIG, and a port, cores and GPUs that no other task has. A terminal shows a line for each task, how far
it is, and the newest evaluation; anything else gets their output with prefixes. All output is kept in files,
one a task.
"""

_EPILOG = f"""\
examples:
  muster run --workers 2 train.py
  muster run --chief --workers 1 --evaluator --restarts 3 train.py --model_dir /data/model
  muster run --workers 3 --ps 2 --evaluator --restarts 9 train.py
  muster run --workers 2 -m package.train --steps 1000

how a job ends:
  The job has ended well when every task has, the evaluator included.
  If a task that trains fails, the others get SIGTERM to save and end, and the cause is named. With
  --restarts the same command is then started again, and goes on from its last checkpoint.
  If the evaluator fails, training goes on; only the evaluator is started again if there are restarts left.
  So it is for each task of a job with parameter servers: it alone is started again, at its address. Without
  restarts left, the others go on without a worker, and the job counts as failed at its end; the loss of
  the chief or a server ends it. Such a job ends with its chief: workers and servers follow by themselves.
  All this holds for Estimators and for programs with a ClusterCoordinator, which runs in the chief: without a
  worker, an Estimator's chief trains on alone, and the loss of a coordinator's last one ends the job.
  At Ctrl-C, SIGTERM and SIGHUP all tasks finish a step, save and end, however long that takes, up to ten
  minutes. A second Ctrl-C kills them at once, but for one within a second of the first, which is the same.
  A signal that comes while tasks are started ends those that were; no more are started.
  Training tasks that have ended without having joined each other are named: each may have trained a model
  of its own.
  Nothing that a task has started goes on running after the job.

exit code:
  0 if all went well; that of the task which failed first, or 128 + its signal; 128 + the signal that ended
  the job; 2 if these options make no sense, or this machine is too small for the tasks.

cores:
  Tasks that train get equal shares, and so does a coordinator. A parameter server counts for a quarter of
  one; if that is less than a core for all servers, they are bound to none. The evaluator is bound to none.
  GPUs are for training; the evaluator gets one that is left over.
  More than {TASKS_A_CORE} tasks for each core are refused, and more than memory holds, at {TASK_MIB} MiB
  each: they would wait for each other, and the machine might swap. With --oversubscribe they are started.

environment variables of a task:
  TF_CONFIG         all addresses, and which task it is; for the evaluator only those of training tasks
  MUSTER_LISTEN_FD  the number of the socket that already listens at its address
  MUSTER_JOB_ID     the same in all tasks; another after each restart
  MUSTER_SECRET     what lets it take part in the job: made for each job, the same after restarts; a
                    MUSTER_SECRET or MUSTER_SECRET_FILE that is set here already is kept
  PYTHONHASHSEED    for sets of text in one order: the same in all tasks, and after restarts; one that is set
                    here already is kept
  MUSTER_TLS        the folder of ca.crt, tls.crt and tls.key, if it is set here; `muster keys` makes one
  MUSTER_TERMINATION_LOG  the file in which it says why it ends, where that is another task's doing
  MUSTER_SNAPSHOT_DIR  where parameter servers keep what they go on from, with --ps and --restarts, unless the
                    program says where: a folder beside the logs, removed at the end
  MUSTER_PROFILE    the folder for traces, with --profile
"""


def add_run_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``run`` to the commands of a parser.

    The parsed arguments get a ``handler``: a function that takes them and returns the exit code.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = commands.add_parser(
        "run",
        help="run a program as several tasks on this machine",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_job_options(
        parser,
        "--devices-per-worker",
        "GPUs of each training task, or, where there are none, virtual devices of the CPU "
        "(default: all GPUs in equal parts; 1 device of the CPU)",
        restarts=0,
    )
    parser.add_argument(
        "--grace-secs",
        type=_seconds,
        default=_GRACE_SECS,
        metavar="S",
        help="how long tasks that were told to end may take, after they have finished a step and saved, "
        f"before they are killed (default: {_GRACE_SECS:g})",
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        metavar="DIR",
        help="where to keep each task's output, as TASK.log, added to what is there "
        "(default: a temporary folder, removed if all goes well)",
    )
    parser.add_argument(
        "--profile",
        type=folder,
        metavar="DIR",
        help="trace some steps of each task into DIR, for TensorBoard's profiler and Perfetto, and say where "
        "the time of a step goes",
    )
    parser.add_argument(
        "--oversubscribe",
        action="store_true",
        help=f"start the tasks even if there are more than {TASKS_A_CORE} for each core, or more than memory "
        f"holds, at {TASK_MIB} MiB each; without it, such a job is refused",
    )
    parser.add_argument("--ends-with-input", action="store_true", help=argparse.SUPPRESS)  # for notebooks
    add_program_options(parser, "the program, a Python file")
    parser.set_defaults(handler=functools.partial(_run, parser))


def _print_profiles(folder: Path) -> None:
    """Print the profiles that the tasks have written."""
    found = sorted(folder.glob("*/profile.txt"))
    for path in found:
        print(f"{path.parent.name}: {path.read_text()}", end="")
    if found:
        print(f"Traces: tensorboard --logdir {folder}, or {folder}/*/plugins/profile/* in ui.perfetto.dev")
    else:
        print("There is no profile: no task trained for 30 steps with muster.estimator.", file=sys.stderr)


def _what_is_wrong_with(program: tuple[str, ...]) -> str:
    """Return why Python could not run a program, whose modules are not imported for that; empty if it can."""
    if program[0] != "-m":
        path = Path(program[0])
        if not path.exists():
            return f"there is no {path} in {Path.cwd()}"
        if path.is_dir() and not (path / "__main__.py").exists():
            return f"{path} is a folder without a __main__.py: name a Python file"
        return ""
    name = program[1]
    sys.path.insert(0, os.getcwd())  # where `python -m` looks first, too
    try:
        # One name after the other: to find a module in a package would import the package.
        places: Sequence[str] | None = None
        spec = None
        parts = name.split(".")
        for count, part in enumerate(parts, 1):
            if count == 1:  # any finder may know it, such as that of a package in development
                found = (finder.find_spec(part, None) for finder in sys.meta_path)
                spec = next((each for each in found if each is not None), None)
            else:
                spec = PathFinder.find_spec(part, places)
            whole = ".".join(parts[:count])
            if spec is None:
                return f"there is no module {whole}, in {Path.cwd()} or where Python has installed some"
            places = None if (here := spec.submodule_search_locations) is None else [*here]
            if places is None and count < len(parts):
                return f"{whole} is a module, and no package: there is no {name}"
        if spec is not None and places is not None and PathFinder.find_spec("__main__", places) is None:
            return f"{name} is a package without a __main__.py: name a module of it, such as {name}.train"
    finally:
        sys.path.pop(0)
    return ""


def _end_with_input() -> None:
    """Tell the job to end when nobody can write to standard input any more."""
    while os.read(0, 1 << 12):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, given: {text!r}")
    return value


def _run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if sys.platform != "linux":
        parser.error(
            f"this needs Linux, and this is {sys.platform}; start each task by hand with a TF_CONFIG of its "
            "own, or run this in a Linux container"
        )
    # Imported late: the help of the command must not wait for the terminal's library.
    from muster.launch._machine import this_machine
    from muster.launch._plan import with_hash_seed, with_secret
    from muster.launch._run import RunOptions, run_job
    from muster.launch._view import make_view

    if "TF_CONFIG" in os.environ:
        parser.error(
            "TF_CONFIG is set, so that this process is itself a task of a job, and this command starts a job "
            "of its own; unset TF_CONFIG"
        )
    program = program_of(parser, args)
    if wrong := _what_is_wrong_with(program):
        parser.error(wrong)
    try:
        shape = shape_of(args)
        options = RunOptions(
            shape=shape,
            program=program,
            restarts=args.restarts,
            grace_secs=args.grace_secs,
            log_dir=args.log_dir,
            oversubscribe=args.oversubscribe,
        )
        environ = with_hash_seed(with_secret(os.environ))
        if args.profile is not None:
            environ["MUSTER_PROFILE"] = str(args.profile.absolute())
        if args.ends_with_input:
            threading.Thread(target=_end_with_input, daemon=True).start()
        code = run_job(options, this_machine(environ), environ, make_view(shape.tasks))
        if args.profile is not None:
            _print_profiles(args.profile)
        return code
    except ClusterError as exc:
        parser.error(str(exc))
    except OSError as exc:
        print(f"muster run: {exc}", file=sys.stderr)
        return 1
