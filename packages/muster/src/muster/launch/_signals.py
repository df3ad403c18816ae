"""The signals that the launcher gets."""

import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Self


class SignalInbox:
    """Collects SIGINT, SIGTERM and SIGHUP while it is entered, instead of their effects.

    A signal that was ignored before, such as SIGHUP under ``nohup``, stays ignored.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, signal._HANDLER] = {}
        self._interrupts = False

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def _note(self, number: int, frame: object) -> None:
        if self._interrupts:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a signal also raise KeyboardInterrupt in this block, which may wait for long."""
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def fileno(self) -> int:
        """Return a descriptor that is readable when a signal has come."""
        return self._reader.fileno()

    def receive(self) -> list[int]:
        """Return the numbers of the signals that have come since the last call."""
        with contextlib.suppress(BlockingIOError):
            return list(self._reader.recv(64))
        return []
