"""The shared options of ``muster run`` and ``muster manifest``, and their last argument, the program."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster._errors import PathError
from muster._paths import local_path
from muster.launch._plan import JobShape


def add_job_options(
    parser: argparse.ArgumentParser, devices_option: str, devices_help: str, *, restarts: int
) -> None:
    """Add the options for the tasks of a job, and for its restarts.

    Args:
        parser: The parser of the command.
        devices_option: The name of the option for the devices of each training task.
        devices_help: The help of that option.
        restarts: The default number of restarts.
    """
    parser.add_argument(
        "--workers",
        type=integer(0),
        default=1,
        metavar="N",
        help="tasks of type worker (default: 1; 0 only with --chief)",
    )
    parser.add_argument(
        "--chief",
        action="store_true",
        help="add a task of type chief, which trains as the workers do, and saves; without it worker 0 is "
        "the chief, but a job with parameter servers always has one",
    )
    parser.add_argument(
        "--ps",
        type=integer(0),
        default=0,
        metavar="N",
        help="tasks of type ps: parameter servers, for Estimators that train without waiting for each other "
        "and for a ClusterCoordinator; the job has a chief then, which trains or coordinates (default: 0)",
    )
    parser.add_argument(
        "--evaluator", action="store_true", help="add a task that evaluates checkpoints while others train"
    )
    parser.add_argument(
        devices_option, dest="devices_per_worker", type=integer(1), metavar="N", help=devices_help
    )
    parser.add_argument(
        "--restarts",
        type=integer(0),
        default=restarts,
        metavar="N",
        help="how often to start again after a failure (default: %(default)s)",
    )


def shape_of(args: argparse.Namespace) -> JobShape:
    """Return the tasks that those options select.

    Raises:
        ClusterError: The options contradict each other.
    """
    return JobShape(
        workers=args.workers,
        chief=args.chief or args.ps > 0,
        ps=args.ps,
        evaluator=args.evaluator,
        devices_per_worker=args.devices_per_worker,
    )


def integer(least: int) -> Callable[[str], int]:
    """Return a type of argument: an integer, at least ``least``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be an integer, given: {text!r}") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, given: {value}")
        return value

    return parse


def folder(text: str) -> Path:
    """Return a folder that an argument names; a URL of what is no folder here is a wrong argument."""
    try:
        return Path(local_path(text))
    except PathError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


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
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help=script_help)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def program_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the words after the interpreter that run the program that those options name.

    A command without a program ends with an error.
    """
    if args.module is not None:
        return ("-m", *args.module)
    if args.script is None:
        parser.error("the following arguments are required: SCRIPT, or -m MODULE")
    return (args.script, *args.arguments)
