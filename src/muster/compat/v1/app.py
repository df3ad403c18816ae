"""``tf.compat.v1.app``."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Call a program's main function with its arguments, and exit with what it returns.

    Flags are not parsed: programs that use ``tf.flags`` use absl or argparse instead.

    Args:
        main: the function; None takes that of the module ``__main__``.
        argv: the arguments, the program's name first; None takes those of the command.

    Source: tensorflow/python/platform/app.py, ``run``.
    """
    function = main or sys.modules["__main__"].main
    sys.exit(function(list(sys.argv if argv is None else argv)))
