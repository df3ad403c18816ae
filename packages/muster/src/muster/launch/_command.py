"""``muster run``: its options and their checks, and those that it shares with ``muster manifest``."""

import argparse
import contextlib
import functools
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster._commands import Types, add_command, file
from muster._errors import ClusterError, RosterError
from muster._extras import PAGE_PACKAGES, install_command, missing_package, working_command
from muster._remote import refresh, remote_url
from muster.launch._plan import TASK_MIB, TASKS_A_CORE, JobShape


def shape_of(args: argparse.Namespace) -> JobShape:
    """Return the tasks that those options select.

    Raises:
        ClusterError: The options contradict each other.
    """
    least, workers = args.workers
    return JobShape(
        workers=workers,
        least=least,
        virtual_replicas=args.virtual_replicas,
        chief=args.chief or args.ps > 0,
        ps=args.ps,
        evaluator=args.evaluator,
        devices_per_worker=getattr(args, "gpus", None) or args.devices_per_worker,
    )


class _TakeModule(argparse.Action):
    """Takes ``-m MODULE`` and all words after it, which are the program's, as Python does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if not values or values[0].startswith("-"):
            parser.error("argument -m: expected the name of a module, such as package.train")
        namespace.module = tuple(values)


def add_program_options(parser: argparse.ArgumentParser, script_help: str) -> None:
    """Add the program, a file or a module, and its arguments. Must come after all other options.

    Args:
        parser: The parser of the command.
        script_help: The help of the program's file.
    """
    parser.usage = f"{parser.prog} [options] (SCRIPT | -m MODULE) ..."
    parser.add_argument(
        "-m",
        dest="module",
        action=_TakeModule,
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="MODULE and its arguments: run a module as the program, as `python -m` does; all other options "
        "come before it",
    )
    parser.add_argument("script", nargs="?", metavar="SCRIPT", type=file, help=script_help)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def late_options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """Return those arguments of the program which would be options of the command before it."""
    words = args.arguments if args.module is None else args.module[1:]
    known = {option for action in parser._actions for option in action.option_strings}
    return [word for word in words if word.split("=")[0] in known - {"-h", "--help", "-m"}]


def program_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the words after the interpreter that run the program that those options name.

    A command without a program ends with an error.
    """
    if args.module is not None:
        return ("-m", *args.module)
    if args.script is None:
        parser.error("the following arguments are required: SCRIPT, or -m MODULE")
    return (args.script, *args.arguments)


def amount(text: str) -> str:
    """Return an amount of memory that an argument gives, as Kubernetes writes it."""
    if not re.fullmatch(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)", text):
        raise argparse.ArgumentTypeError(
            f"must be a number and Ki, Mi, Gi or Ti, such as 8Gi, given: {text!r}"
        )
    return text


_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def bytes_of(text: str) -> int:
    """Return an `amount` in bytes."""
    return int(text[:-2]) * _UNITS[text[-2:]]


def variable(text: str) -> tuple[str, str]:
    """Return the name and the value of an environment variable that an argument gives."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, given: {text!r}")
    return name, value


def _volume(text: str) -> tuple[str, str]:
    claim, _, path = text.partition(":")
    if not claim or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"must be CLAIM:PATH, such as models:/models, given: {text!r}")
    return claim, path


def _sbatch_option(text: str) -> str:
    if not re.fullmatch(r"(?:[a-z]+:)?-[^\n]+", text):
        raise argparse.ArgumentTypeError(
            f"must be an option, such as --account=me, or ps:--mem=64G for tasks of one type, given: {text!r}"
        )
    return text


# The types of arguments that options for cluster managers have, beside amounts.
MANAGER_TYPES: Types = {"volume": _volume, "option": _sbatch_option}


def add_run_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``run`` to the commands of a parser.

    The parsed arguments get a ``handler``: a function that takes them and returns the exit code.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = add_command(
        commands,
        "run",
        {**MANAGER_TYPES, "amount": amount, "seconds": _seconds, "variable": variable},
        devices_option="--devices-per-worker",
        devices_help="GPUs of each training task, or, where there are none, virtual devices of the CPU "
        "(default: all GPUs in equal parts; 1 device of the CPU)",
        install_command=install_command("serve"),
        task_mib=TASK_MIB,
        tasks_a_core=TASKS_A_CORE,
    )
    parser.add_argument("--ends-with-input", action="store_true", help=argparse.SUPPRESS)  # for notebooks
    add_program_options(parser, "the program, a Python file")
    parser.set_defaults(handler=functools.partial(_run, parser), restarts=0, words_are_told_apart=False)


def spell_out_page(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return the words after ``run`` with the port of ``--page``, which argparse would take the program for.

    Args:
        parser: The parser of ``run``.
        words: The words, of which those after the program's name stay as they are.
    """
    takes = {option: action.nargs != 0 for action in parser._actions for option in action.option_strings}
    spelled = [*words]
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "--"):
        if words[at] == "--page":
            has_port = at + 1 < len(words) and words[at + 1].isdecimal()
            spelled[at] = "--page" if has_port else "--page=0"
            at += 2 if has_port else 1
        else:
            at += 2 if takes.get(words[at]) else 1
    return spelled


def _print_profiles(folder: Path) -> None:
    """Print the profiles that the tasks have written."""
    refresh(str(folder))  # small files, as these are, are here then
    found = sorted(folder.glob("*/profile.txt"))
    for path in found:
        print(f"{path.parent.name}: {path.read_text()}", end="")
    if found:
        where = remote_url(str(folder))
        print(
            f"Traces: {where}/*/plugins/profile/* in ui.perfetto.dev, or tensorboard --logdir {where} with "
            f"its plugin profile: {working_command('profile')}"
        )
    else:
        print("There is no profile: no task trained for 30 steps with muster.estimator.", file=sys.stderr)


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
    from muster.engines import TaskRequest, join_nodes, what_is_wrong_with
    from muster.launch._engines import (
        GRACE_SECS,
        PROFILE,
        AnotherLauncherError,
        credentials_of_nodes,
        make_engine,
    )
    from muster.launch._plan import with_hash_seed, with_secret
    from muster.launch._run import RunOptions, describe_job, run_job
    from muster.launch._view import make_view

    if "TF_CONFIG" in os.environ:
        parser.error(
            "TF_CONFIG is set, so that this process is itself a task of a job, and this command starts a job "
            "of its own; unset TF_CONFIG"
        )
    program = program_of(parser, args)
    if args.sync and program[0] != "-m":
        program = (os.path.relpath(program[0]), *program[1:])  # as it is in the copy
    if args.on == "local" and (wrong := what_is_wrong_with(program)):
        parser.error(wrong)
    told_apart = args.words_are_told_apart or "--" in sys.argv
    if not told_apart and (late := late_options(parser, args)):
        print(
            f"muster run: {', '.join(late)} after the program's name is for the program. To give it to this "
            "command, put it before the name.",
            file=sys.stderr,
        )
    if args.page is not None and (missing := missing_package(PAGE_PACKAGES, "serve")):
        parser.error(f"argument --page: {missing}")
    try:
        shape = shape_of(args)
        options = RunOptions(
            shape=shape,
            program=program,
            restarts=args.restarts,
            grace_secs=GRACE_SECS if args.grace_secs is None else args.grace_secs,
            log_dir=args.log_dir,
            oversubscribe=args.oversubscribe,
            request=TaskRequest(
                cpus=args.cpus, gpus=args.gpus, memory=None if args.memory is None else bytes_of(args.memory)
            ),
            stall_secs=args.stall_secs,
            page=None if args.page is None else (args.page_host, args.page),
        )
        environ = {**os.environ, **dict(args.env)}
        if args.nodes is None:
            environ = with_secret(environ)
        environ = with_hash_seed(environ)
        if args.profile is not None:
            environ[PROFILE] = remote_url(str(args.profile.absolute()))
        if args.ends_with_input:
            threading.Thread(target=_end_with_input, daemon=True).start()
        engine, environ = make_engine(args, shape, program, environ)
        if args.dry_run:
            print(describe_job(options, engine, environ))
            return 0
        if args.detach:  # which make_engine refuses without a cluster manager
            with contextlib.closing(engine):
                print(engine.detach(shape.tasks, options.request, program))
            return 0
        code = run_job(options, engine, environ, make_view(shape.tasks))
        if args.profile is not None:
            _print_profiles(args.profile)
        return code
    except ClusterError as exc:
        parser.error(str(exc))
    except AnotherLauncherError:
        return _join(args, join_nodes, credentials_of_nodes(os.environ))
    except (OSError, RosterError) as exc:
        print(f"muster run: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while hosts are connected: no task runs yet
        return 128 + signal.SIGINT


def _join(args: argparse.Namespace, join: Callable[[str, str, Any], int], credentials: Any) -> int:
    """Start tasks for the launcher of another host, and return the job's exit code."""
    print(
        f"muster run: the launcher at {args.rendezvous} runs the job and shows its output; this one starts "
        "the tasks of this host.",
        file=sys.stderr,
    )
    try:
        code = join(args.rendezvous, args.address, credentials)
    except RosterError as exc:
        print(f"muster run: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"muster run: the job has ended, with exit code {code}.", file=sys.stderr)
    return code
