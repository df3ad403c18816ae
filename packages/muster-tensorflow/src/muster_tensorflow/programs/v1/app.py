"""``tf.compat.v1.app``."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, cast


def run(main: Callable[[list[str]], object] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Parse flags, call a program's main function with the other arguments, and exit with its result.

    Flags are those of absl, which ``tf.flags`` defines; ``--help`` lists them. Where absl is not installed,
    no flags are parsed. Arguments that are no flags, or flags that nobody defined, are given to ``main``.

    Args:
        main: The function; None takes ``main`` of the module ``__main__``.
        argv: The program's name and arguments; None takes those of the command line.

    Source: tensorflow/python/platform/app.py, ``run``.
    """
    function = main or sys.modules["__main__"].main
    arguments = list(sys.argv if argv is None else argv)
    sys.exit(cast("str | int | None", function(_without_flags(arguments))))


def _without_flags(arguments: list[str]) -> list[str]:
    try:
        from absl import app, flags
    except ImportError:
        return arguments
    app.define_help_flags()
    try:
        return flags.FLAGS(arguments, known_only=True)
    except flags.Error as exc:
        print(f"{exc}\nThe flags that there are: {arguments[0]} --help", file=sys.stderr)
        sys.exit(1)
