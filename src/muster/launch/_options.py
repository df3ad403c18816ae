"""The options that several commands have."""

import argparse
from collections.abc import Callable

from muster.launch._plan import JobShape


def add_shape_options(parser: argparse.ArgumentParser, devices_option: str, devices_help: str) -> None:
    """Add the options that say which tasks a job has.

    Args:
        parser: The command's.
        devices_option: What its option for the devices of each training task is called.
        devices_help: What that says of itself.
    """
    parser.add_argument(
        "--workers",
        type=whole_number(0),
        default=1,
        metavar="N",
        help="tasks of type worker (default: 1; 0 only with --chief)",
    )
    parser.add_argument(
        "--chief", action="store_true", help="add a task of type chief, which trains as the workers do"
    )
    parser.add_argument(
        "--evaluator", action="store_true", help="add a task that evaluates checkpoints while others train"
    )
    parser.add_argument(
        devices_option, dest="devices_per_worker", type=whole_number(1), metavar="N", help=devices_help
    )


def shape_of(given: argparse.Namespace) -> JobShape:
    """The tasks that those options ask for.

    Raises:
        ClusterError: There is no such job.
    """
    return JobShape(
        workers=given.workers,
        chief=given.chief,
        evaluator=given.evaluator,
        devices_per_worker=given.devices_per_worker,
    )


def whole_number(least: int) -> Callable[[str], int]:
    """Return a type of argument: a whole number, not below the least."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, given: {text!r}") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, given: {value}")
        return value

    return parse
