"""The options that several commands have."""

import argparse
from collections.abc import Callable


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which tasks a job has."""
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
