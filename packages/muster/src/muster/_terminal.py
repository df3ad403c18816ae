"""Keep a status line at the foot of a terminal, or below the cell of a notebook."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TextIO

_EVERY_SECS = 0.2
_START_OF_LINE, _ERASE_REST = "\r", "\x1b[K"

Source = Callable[[int], str | None]
"""Returns what the line says now, of at most so many characters; None for nothing. It must not write."""


class FootLine:
    """Draws a line at the foot of a terminal, a few times a second, on a thread.

    What the program prints or logs meanwhile stays whole, and goes where it always went: the line is taken
    away before, and drawn again after a complete line. While a line of the program is unfinished, such as a
    prompt or the bar of another library, this one stays away.

    To see all of it, whoever holds the stream, its ``write`` is replaced while there is something to show,
    and that of standard output if it is a terminal too.
    """

    def __init__(self, stream: TextIO) -> None:
        """Take a stream that is a terminal; `at` returns the line of one."""
        self._stream = stream
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may write while this does
        self._sources: list[Source] = []  # the last one is shown
        self._drawn = ""
        self._drawn_at = 0.0
        self._unfinished = False  # whether the program's last line is
        self._replaced: list[tuple[TextIO, Any, Any]] = []  # stream, its own `write` if any, the new one
        self._closed = threading.Event()

    @classmethod
    def at(cls, stream: TextIO | None) -> Self | None:
        """Return the line of a stream; None if that is no terminal, or one that cannot show it."""
        present = getattr(getattr(stream, "__dict__", {}).get("write"), "func", None)
        if isinstance(owner := getattr(present, "__self__", None), cls):
            return owner
        if stream is None or os.environ.get("TERM") == "dumb" or not _is_terminal(stream):
            return None
        return cls(stream)

    @property
    def width(self) -> int:
        """The largest number of characters."""
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
        except (OSError, ValueError):
            return 79

    def can_show(self, text: str) -> bool:
        """Return whether the terminal's encoding has all characters of a text."""
        try:
            text.encode(self._stream.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def add(self, source: Source) -> None:
        """Show what a source says, in place of what was shown."""
        with self._lock:
            self._sources.append(source)
            if len(self._sources) == 1:
                self._take_streams()
            self._draw()

    def remove(self, source: Source, last: str = "") -> None:
        """Show a source no longer, and leave a text in its place, above what is shown from here on."""
        with self._lock:
            if source not in self._sources:
                return
            self._erase()
            self._sources.remove(source)
            if last:
                self._put(("\n" if self._unfinished else "") + last + "\n")
                self._unfinished = False
            if not self._sources:
                self._give_streams_back()

    def draw(self) -> None:
        """Draw the line, if that is due."""
        with self._lock:
            if time.monotonic() - self._drawn_at >= _EVERY_SECS:
                self._draw()

    def erase(self) -> None:
        """Take the line away, until it is drawn again."""
        with self._lock:
            self._erase()

    def _take_streams(self) -> None:
        self._closed = threading.Event()
        self._unfinished = False
        streams = [self._stream]
        if sys.stdout is not self._stream and _is_terminal(sys.stdout):
            streams.append(sys.stdout)
        for stream in streams:
            before, write = stream.__dict__.get("write"), partial(self._write, stream.write)
            stream.__dict__["write"] = write
            self._replaced.append((stream, before, write))
        threading.Thread(target=self._run, args=(self._closed,), name="muster-bar", daemon=True).start()

    def _give_streams_back(self) -> None:
        self._closed.set()
        for stream, before, write in self._replaced:
            if stream.__dict__.get("write") is not write:
                continue  # another library has replaced it since, and calls this one
            del stream.__dict__["write"]
            if before is not None:
                stream.__dict__["write"] = before
        self._replaced = []

    def _run(self, closed: threading.Event) -> None:
        while not closed.wait(_EVERY_SECS):
            self.draw()

    def _write(self, write: Callable[[str], int], text: str) -> int:
        """Write what the program writes; a process that was forked has no line, and maybe a lock for ever."""
        if os.getpid() != self._pid:
            return write(text)
        with self._lock:
            self._erase()
            count = write(text)
            if text:
                self._unfinished = not text.endswith("\n")
            if not self._unfinished:
                self.draw()
            return count

    def _draw(self) -> None:
        if not self._sources or self._unfinished:
            return
        text = self._sources[-1](self.width) or ""
        if text != self._drawn:
            self._put(f"{_START_OF_LINE}{text}{_ERASE_REST}")
        self._drawn = text
        if text:  # a source that has nothing to say is drawn at once when it has
            self._drawn_at = time.monotonic()

    def _erase(self) -> None:
        if self._drawn:
            self._put(f"{_START_OF_LINE}{_ERASE_REST}")
            self._drawn = ""

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone, a closed stream
            type(self._stream).write(self._stream, text)
            self._stream.flush()


class CellLine:
    """Shows a line below the cell of a notebook that runs: one display, updated a few times a second.

    Args:
        display: ``IPython.display.display``.
    """

    width = 99  # as nobody knows how wide the notebook is shown

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._lock = threading.Lock()
        self._source: Source | None = None
        self._handle: Any = None
        self._shown = ""
        self._drawn_at = -_EVERY_SECS
        self._closed = threading.Event()

    @classmethod
    def of_notebook(cls) -> Self | None:
        """Return a line below the cell that runs; None if this process is no notebook's."""
        if getattr(running_shell(), "kernel", None) is None:
            return None
        from IPython.display import display

        return cls(display)

    def can_show(self, text: str) -> bool:
        """Return whether the notebook has all characters of a text."""
        return True

    def add(self, source: Source) -> None:
        """Show what a source says."""
        self._source = source
        self.draw()
        threading.Thread(target=self._run, name="muster-bar", daemon=True).start()

    def remove(self, source: Source, last: str = "") -> None:
        """Show a source no longer, and leave a text in its place."""
        with self._lock:
            self._source = None
            self._show(last)
        self._closed.set()

    def draw(self) -> None:
        """Show what the source says now, if that is due."""
        with self._lock:
            if self._source is None or time.monotonic() - self._drawn_at < _EVERY_SECS:
                return
            if text := self._source(self.width):
                self._drawn_at = time.monotonic()
                self._show(text)

    def erase(self) -> None:
        """Leave what is shown: the display has a place of its own."""

    def _run(self) -> None:
        while not self._closed.wait(_EVERY_SECS):
            self.draw()

    def _show(self, text: str) -> None:
        if text == self._shown:
            return
        self._shown = text
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def running_shell() -> Any:
    """Return the shell of IPython in which this process runs code, of a notebook, say; None for none."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get_ipython is None else get_ipython()


def _is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal whose ``write`` can be replaced."""
    try:
        return bool(stream.isatty()) and hasattr(stream, "__dict__")
    except (AttributeError, ValueError):
        return False
