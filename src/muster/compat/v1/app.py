"""``tf.compat.v1.app``."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, cast


def run(main: Callable[[list[str]], object] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Call a program's main function with its arguments, and exit with its result.

    Flags are not parsed: use absl or argparse in the place of ``tf.flags``.

    Args:
        main: The function; None takes ``main`` of the module ``__main__``.
        argv: The program's name and arguments; None takes those of the command line.

    Source: tensorflow/python/platform/app.py, ``run``.
    """
    function = main or sys.modules["__main__"].main
    sys.exit(cast("str | int | None", function(list(sys.argv if argv is None else argv))))
