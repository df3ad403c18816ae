"""Programs on a terminal: a pseudo-terminal, and what a person would see on it."""

import os
import pty
import re
import select
import subprocess
import sys
import time

from jobs import QUICKLY_BY_FLAGS

DEADLINE = 120.0


class OnTerminal:
    """A Python program whose standard error, and output unless it is given, are a terminal.

    Args:
        arguments: The arguments of the interpreter.
        stdout: Where standard output goes; None for the terminal.
        environ: Variables of its environment beside this one's.
    """

    def __init__(self, arguments, stdout=None, **environ):
        self.written = ""  # by the program, with control codes
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            env={
                **os.environ,
                "TERM": "xterm",
                "PYTHONIOENCODING": "utf-8",
                "XLA_FLAGS": QUICKLY_BY_FLAGS,
                **environ,
            },
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def read_until(self, *texts):
        """Read until each text was written, or the program has ended."""
        deadline = time.monotonic() + DEADLINE
        while not all(text in self.written for text in texts):
            if not self._read(deadline):
                raise AssertionError(f"It never wrote {texts}:\n{self.written}")

    def end(self):
        """Read all that it writes, and return its exit code."""
        deadline = time.monotonic() + DEADLINE
        while self._read(deadline):
            pass
        return self.process.wait(timeout=max(0.0, deadline - time.monotonic()))

    def lines(self):
        """Return the lines that are left on the screen, without trailing spaces."""
        return screen(self.written)

    def _read(self, deadline):
        if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"It has written nothing more in time:\n{self.written}")
        try:
            found = os.read(self._terminal, 1 << 16)
        except OSError:  # nobody has the other end any more
            return False
        self.written += found.decode()
        return bool(found)


def screen(written):
    """Return the lines that are left on a wide screen after what was written to it."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]
