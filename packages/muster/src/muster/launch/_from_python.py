"""Run a job from Python, as ``muster run`` does."""

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from muster._errors import ClusterError
from muster._paths import local_path
from muster.launch._command import add_run_command


class _RaisingParser(argparse.ArgumentParser):
    """Raises what it would end the process with."""

    def error(self, message: str) -> NoReturn:
        raise ClusterError(message)


def run(program: str | os.PathLike[str], arguments: Sequence[str] = (), **options: Any) -> int:
    """Run a program as the tasks of a job, here or on other machines, until the job ends.

    Must be called from the main thread, whose signals end the job as they end ``muster run``. The output of
    the tasks goes to standard output.

    ```python
    code = muster.launch.run("train.py", ["--steps", "1000"], workers=2, on="ssh:node-1,node-2")
    ```

    Args:
        program: The program's file; ``"-m package.train"`` for a module.
        arguments: Its arguments.
        **options: Those of ``muster run``, with underscores for hyphens: ``workers=2``, ``on="ray"``,
            ``restarts=3``, ``dry_run=True``, ``env={"NAME": "value"}``, ``volume=["models:/models"]``.

    Returns:
        The exit code of ``muster run``: 0 if every task has ended well.

    Raises:
        ClusterError: The options make no sense, or the machines cannot be reached or are too small; nothing
            was started.
        TypeError: There is no such option.
    """
    commands: Any = _RaisingParser().add_subparsers(parser_class=_RaisingParser)
    add_run_command(commands)
    parser = commands.choices["run"]
    known = {action.dest: action for action in parser._actions if action.option_strings}
    words = ["run"]
    for name, value in options.items():
        action = known.get(name)
        if action is None or name == "module":
            raise TypeError(f"muster.launch.run has no option {name!r}: see `muster run --help`.")
        option = f"--{name.replace('_', '-')}"
        if action.nargs == 0:
            words += [option] * bool(value)
        elif name == "env":
            words += [f"{option}={key}={each}" for key, each in dict(value).items()]
        elif isinstance(value, list | tuple):
            words += [f"{option}={each}" for each in value]
        elif value is not None:
            words.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    first = os.fspath(program)
    if not first.startswith("-m "):
        first = local_path(program)
    words += first.split(maxsplit=1) if first.startswith("-m ") else ["--", first]
    args = parser.parse_args([*words[1:], *arguments])
    args.words_are_told_apart = True
    code: int = args.handler(args)
    return code
