"""Read the lines of a task's log as a terminal would show them."""

import os
import re
from pathlib import Path

from muster._remote import fetch

_MOST_BYTES = 1 << 20
_LONGEST_BYTES = 1 << 16
# Characters that move the cursor or ring the bell, and start all escape sequences but those of colours.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")


class LineReader:
    """Reads the lines that were added to a file since the last read.

    An unfinished line is held back until it is finished or longer than 64 KiB. Of a line with carriage
    returns, as progress bars write, only the part is returned that a terminal would show last.

    Args:
        path: The file.
        offset: The position of the first line, in bytes.
    """

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._rest = b""
        self._open(offset)

    def _open(self, offset: int) -> None:
        self._file = self._path.open("rb")
        self._file.seek(offset)

    def read(self, *, everything: bool = False) -> list[str]:
        """Return the new lines without line ends, from at most 1 MiB.

        Args:
            everything: Whether to return all of them, including an unfinished one: the writer has ended.
        """
        added = self._file.read(-1 if everything else _MOST_BYTES)
        if not added and not everything:
            return []
        *lines, self._rest = (self._rest + added).split(b"\n")
        if self._rest and (everything or len(self._rest) > _LONGEST_BYTES):
            lines.append(self._rest)
            self._rest = b""
        return [clean_line(line) for line in lines]

    def reopen(self) -> None:
        """Go on in the file that has the path now, where another was read before."""
        offset = self._file.tell()
        self.close()
        self._open(offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TaskLog:
    """The log of one start of a task: a first line about it, and what the task writes after that.

    Args:
        path: The file, which is added to.
        title: The first line.
    """

    def __init__(self, path: Path, title: str) -> None:
        self.path = path
        fetch(os.fspath(path))
        with path.open("ab", buffering=0) as file:
            file.write(f"=== {title}\n".encode(errors="replace"))
            self._offset = file.tell()
        self._reader = LineReader(path, self._offset)

    def new_lines(self, *, everything: bool = False) -> list[str]:
        """Return the lines that the task has written since the last call; everything if it has ended."""
        lines = self._reader.read(everything=everything)
        if everything:
            self.close()
        return lines

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines that the task has written."""
        return last_lines(self.path, self._offset, count)


def last_lines(path: Path, offset: int, count: int) -> list[str]:
    """Return the last lines of a file, from its last 64 KiB.

    Args:
        path: The file.
        offset: The position before which nothing is read, in bytes.
        count: The largest number of lines.
    """
    with path.open("rb") as file:
        start = max(offset, file.seek(0, os.SEEK_END) - _LONGEST_BYTES)
        file.seek(start)
        lines = file.read().split(b"\n")
    shown = [clean_line(line) for line in lines]
    while shown and not shown[-1].strip():
        shown.pop()
    return shown[-count:]


def clean_line(line: bytes) -> str:
    """Return a line as a terminal would show it, without what moves the cursor."""
    text = line.decode(errors="replace").rstrip("\r")
    return _CONTROL.sub("", text.rpartition("\r")[2])
