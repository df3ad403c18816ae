"""Makes docs/command-line.md from the parsers of the commands: run this file."""

import argparse
import sys
from importlib.metadata import entry_points

from muster.__main__ import _parser
from repository import ROOT

PAGE = ROOT / "docs" / "command-line.md"

_BEGIN = """\
# The command line

`pip install` gives you the command `muster`; `python -m muster` is the same. `muster COMMAND --help` says
what stands here.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_BEGIN, *_sections(_parser())])


def _of_other_packages() -> dict[str, argparse.ArgumentParser]:
    """The parsers of commands of other packages by what starts them; the command itself loads them late."""
    commands = argparse.ArgumentParser(prog="muster").add_subparsers()
    for entry in entry_points(group="muster.commands"):
        entry.load()(commands)
    return {command.prog: command for command in commands.choices.values()}


def _sections(parser: argparse.ArgumentParser) -> list[str]:
    lines = []
    others = _of_other_packages()
    for command in (others.get(each.prog, each) for each in _commands(parser)):
        lines += [f"## {command.prog}", "", _text(command.description), ""]
        rows = [_row(action) for action in command._actions if not _is_hidden(action)]
        if rows:
            lines += ["| argument | |", "|---|---|", *rows, ""]
        if command.epilog:
            lines += [*(_block(command.epilog) if "\n" in command.epilog else [command.epilog]), ""]
    return lines


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The commands below a parser that do something themselves."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        return [parser]
    return [each for action in below for child in action.choices.values() for each in _commands(child)]


def _is_hidden(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS


def _row(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    if action.option_strings and action.nargs != 0:
        name = f"{name} {action.metavar or action.dest.upper()}"
    needed = "needed: " if action.required and action.option_strings else ""
    told = (action.help or "") % {**vars(action), "prog": ""}
    return f"| `{name}` | {needed}{_text(told)} |"


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _block(text: str) -> list[str]:
    return ["```text", text.rstrip(), "```"]


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(page(), end="")
    else:
        PAGE.write_text(page())
