"""Make the parsers of commands by ``commands.toml``, which has their help and their options."""

import argparse
import functools
import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from muster._errors import PathError, StorageError
from muster._paths import local_path

Types = Mapping[str, Callable[[str], Any]]
"""Functions that convert an argument, by the name that an option's table gives as its ``type``."""


def number(kind: type[int] | type[float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a type of argument: a number in a range."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            word = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {word}, given: {text!r}") from None
        if not least <= value <= most or value == math.inf:
            limit = f"{least} or more" if most == math.inf else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be {limit}, given: {text}")
        return value

    return parse


def file(text: str) -> str:
    """Return a file that an argument names, as it is written; a URL of none here is a wrong argument."""
    try:
        return local_path(text)
    except PathError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def folder(text: str) -> Path:
    """Return a folder that an argument names; a URL of what is no folder here is a wrong argument."""
    return Path(file(text))


def worker_range(text: str) -> tuple[int | None, int]:
    """Parse a number of workers, or a range of them: return the least one, or None, and the largest.

    Raises:
        argparse.ArgumentTypeError: It is neither.
    """
    least, colon, most = text.rpartition(":")
    try:
        found = int(least) if colon else None, int(most)
    except ValueError:
        found = None, -1
    if found[1] < 0 or (found[0] is not None and not 1 <= found[0] <= found[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number from 0 nor a range, such as 2:6 for two to six"
        )
    return found


def place(text: str) -> Path:
    """Return a folder that an argument names, or that of a URL in this process' working copy."""
    try:
        return Path(local_path(text, remote=True))
    except (PathError, StorageError) as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def add_command(
    commands: Any, name: str, types: Types | None = None, **values: object
) -> argparse.ArgumentParser:
    """Add a command with its help and its options, and return its parser.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
        name: The command, and its table.
        types: The types of its options besides "folder" and "place", and numbers, which have bounds.
        **values: What stands in the texts for ``$name``.
    """
    table = _tables()[name]
    texts = {key: Template(text).substitute(values) for key, text in table.items() if isinstance(text, str)}
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        **texts,
        allow_abbrev=table.get("allow_abbrev", False),
        formatter_class=(
            argparse.RawDescriptionHelpFormatter
            if "\n" in texts.get("epilog", "")
            else argparse.HelpFormatter
        ),
    )
    add_options(parser, name, types, **values)
    return parser


def add_options(
    parser: argparse.ArgumentParser, name: str, types: Types | None = None, **values: object
) -> None:
    """Add the options of a table to a parser; arguments as for `add_command`."""
    for table in _tables()[name].get("options", ()):
        option = dict(table)
        if "include" in option:
            add_options(parser, option["include"], types, **values)
            continue
        match option.pop("type", None):
            case None:
                pass
            case "int" | "float" as kind:
                least, most = option.pop("least"), option.pop("most", math.inf)
                option["type"] = number(int if kind == "int" else float, least, most)
            case kind:
                option["type"] = {"folder": folder, "place": place, "workers": worker_range, **(types or {})}[
                    kind
                ]
        option["help"] = Template(option["help"]).substitute(values)
        parser.add_argument(Template(option.pop("name")).substitute(values), **option)


@functools.cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
