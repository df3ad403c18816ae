"""The command ``muster``, also ``python -m muster``: runs jobs, looks at and serves what they wrote."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from muster.lifecycle import install

install()  # before the imports that take long

from muster._commands import add_command
from muster._errors import MusterError
from muster._version import __version__
from muster.launch import (
    add_job_commands,
    add_keys_command,
    add_manifest_command,
    add_plan_command,
    add_replay_command,
    add_run_command,
    add_where_command,
    spell_out_page,
)
from muster.serve import add_serve_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after ``muster``; None takes those of the process.

    Returns:
        0 on success, 1 if ``inspect`` found no checkpoint or a damaged one, ``saved-model`` no model or a
        damaged one, or ``keys`` or ``convert`` made nothing, or ``port`` found names that muster lacks, 2 if
        the arguments are wrong, or a file for ``port``; the exit code of the job for ``run``; 130 if Ctrl-C
        ended ``serve``.
    """
    parser = _parser()
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    if words[:1] == ["run"]:
        words[1:] = spell_out_page(_commands_of(parser)["run"], words[1:])
    args, unknown = parser.parse_known_args(words)
    if unknown:
        meant = _meant(unknown[0], parser, args.command)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    if args.command is None:
        parser.print_help()
        return 0
    code = 0
    try:
        code = args.handler(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads the output any more, as in `muster inspect … | head`. Python flushes once more at exit,
        # which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _inspect(args: argparse.Namespace) -> int:
    # Imported late: `muster --help` must not wait for NumPy.
    from muster._checkpoint_commands import inspect_checkpoints

    return _reporting_errors(
        lambda: inspect_checkpoints(args.path, step=args.step, variables=args.variables, restore=args.repair)
    )


def _convert(args: argparse.Namespace) -> int:
    from muster._checkpoint_commands import convert_checkpoint

    return _reporting_errors(lambda: convert_checkpoint(args.source, args.model_dir))


def _show_saved_model(args: argparse.Namespace) -> int:
    from muster.saved_model import show_saved_model

    return _reporting_errors(lambda: show_saved_model(args.path))


def _reporting_errors(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
        return code
    except MusterError as exc:
        print(f"muster: {exc}", file=sys.stderr)
        return 1


def _add_command(commands: Any, entry: EntryPoint) -> None:
    """Add a command of another package, which is imported when the command is used.

    Args:
        commands: The subparsers of ``muster``.
        entry: In the group ``muster.commands``, under the command's name: a function that adds the command's
            parser to subparsers, as `add_run_command` does.
    """
    distribution = "another package" if entry.dist is None else entry.dist.name

    def run(args: argparse.Namespace) -> int:
        parser = argparse.ArgumentParser(prog="muster")
        entry.load()(parser.add_subparsers(required=True))
        loaded = parser.parse_args([entry.name, *args.words])
        code: int = loaded.handler(loaded)
        return code

    command = commands.add_parser(
        entry.name, add_help=False, prefix_chars="\0", help=f"a command of {distribution}: see its --help"
    )
    command.add_argument("words", nargs="*")
    command.set_defaults(handler=run)


def _meant(word: str, parser: argparse.ArgumentParser, command: str | None) -> str:
    """Return a question about the option of a command that a wrong word may stand for; empty for none."""
    if command is not None:
        parser = _commands_of(parser)[command]
    options = [option for action in parser._actions for option in action.option_strings]
    near = difflib.get_close_matches(word.split("=")[0], options, n=1)
    return f". Did you mean {near[0]}?" if near else ""


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(next(groups).choices)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muster",
        description="Train one Keras 3 model on JAX with the names of tf.estimator and tf.distribute.",
    )
    parser.add_argument("--version", action="version", version=f"muster {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    add_run_command(commands)
    add_job_commands(commands)
    add_replay_command(commands)
    add_where_command(commands)
    add_plan_command(commands)
    add_manifest_command(commands)
    add_keys_command(commands)
    add_serve_command(commands)
    for entry in entry_points(group="muster.commands"):
        _add_command(commands, entry)
    add_command(commands, "inspect").set_defaults(handler=_inspect)
    add_command(commands, "convert").set_defaults(handler=_convert)
    saved_model = add_command(commands, "saved-model")
    show = add_command(saved_model.add_subparsers(title="commands", metavar="COMMAND", required=True), "show")
    show.set_defaults(handler=_show_saved_model)
    return parser


if __name__ == "__main__":
    sys.exit(main())
