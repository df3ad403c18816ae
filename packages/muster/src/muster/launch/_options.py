"""What ``muster run`` and ``muster manifest`` share: the tasks, and their last argument, the program."""

import argparse
from collections.abc import Sequence
from typing import Any

from muster.launch._plan import JobShape


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
