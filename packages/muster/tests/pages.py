"""What pages of the documentation tell a reader to run: their programs and commands, in order."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from repository import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Blocks that begin with ``py`` need packages that tests do not have: `make soak` runs them where they are.
# A marker before a block: it goes on with the program before it; it is a file, of muster's or the reader's.
_BLOCK = re.compile(
    r"(?:<!-- (?:(?P<continues>continues)|file: (?P<file>\S+)|saved as (?P<saved>\S+)) -->\n)?"
    r"```(?P<kind>python|sh|shell|bash|console)\n(?P<code>.*?)```",
    re.DOTALL,
)
_INDENTED = re.compile(r"(?<=\n\n)(?:    \S.*\n)+")


@dataclasses.dataclass
class Block:
    """A program, or commands for a shell.

    Attributes:
        kind: "program", "commands", or "file", a program that the page's commands run.
        code: The text; of a program, blank lines stand before it, so that a traceback shows the page's line.
        name: What the page calls the file.
    """

    kind: Literal["program", "commands", "file"]
    code: str
    name: str = ""


def blocks(page: Path) -> Iterator[Block]:
    """Yield what a page tells its reader to run; blocks that continue a program are joined with it."""
    found: list[tuple[int, Block]] = []
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        skipped = "\n" * text[: match.start("code")].count("\n")
        if match["file"]:
            continue  # a change to muster: `test_changes_to_muster_work` applies it
        if match["saved"]:
            found.append((match.start(), Block("file", match["code"], match["saved"])))
        elif match["kind"] != "python":
            found.append((match.start(), Block("commands", match["code"])))
        elif match["continues"]:
            program = [block for _, block in found if block.kind == "program"][-1]
            program.code += skipped[program.code.count("\n") :] + match["code"]
        else:
            found.append((match.start(), Block("program", skipped + match["code"])))
    if page.name == "README.md":
        for match in _INDENTED.finditer(text):
            found.append((match.start(), Block("commands", re.sub(r"^    ", "", match[0], flags=re.M))))
    yield from (block for _, block in sorted(found, key=lambda each: each[0]))
