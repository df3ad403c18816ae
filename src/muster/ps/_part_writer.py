"""A server's part of a checkpoint: written on a thread, while the server goes on."""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping

from muster._text import printable
from muster.checkpoint import sees_folder, write_part
from muster.net import Connection, Hello, ProtocolError, encode_frame
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array
from muster.ps._replies import RefusedError
from muster.ps._service import Service
from muster.ps._wire import receive_message

_log = logging.getLogger(__name__)

# How long the chief may take to say what it wants, in seconds.
_PATIENCE_SECS = 60.0
# How long to wait for a file that nobody waits for any more, since the job has ended, in seconds.
_LINGER_SECS = 10.0


class PartWriter:
    """Writes what a server holds into checkpoints whose chief asks for that, a thread for each connection.

    Args:
        service: The server.
        part: Returns the arrays of a request by key, as they are now; called between two requests of the
            service. They are never changed afterwards. Raises RefusedError.
        name: The task, for the log, such as ``"ps 0"``.
    """

    def __init__(
        self, service: Service, part: Callable[[messages.SavePart], Mapping[str, Array]], name: str
    ) -> None:
        self._service = service
        self._part = part
        self._name = name
        self._threads: set[threading.Thread] = set()
        # A chief whose connection broke asks again while its file may still be written.
        self._writing = threading.Lock()

    def serve(self, connection: Connection, hello: Hello) -> None:
        """Take over a connection: the handler of an `Acceptor`."""
        self._threads = {each for each in self._threads if each.is_alive()}
        thread = threading.Thread(
            target=self._run, args=(connection, hello), name="muster-ps-save", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def close(self) -> None:
        """Wait until what is being written is, unless the disk stands still."""
        deadline = time.monotonic() + _LINGER_SECS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, connection: Connection, hello: Hello) -> None:
        with connection:
            try:
                self._save(connection, hello)
            except (OSError, ProtocolError) as exc:
                _log.warning(
                    "%s has not finished its part of a checkpoint for %s: %s.", self._name, hello.name, exc
                )

    def _save(self, connection: Connection, hello: Hello) -> None:
        save = _receive(connection)
        if not isinstance(save, messages.SavePart):
            raise ProtocolError(f"it begins with {messages.name_of(save)}")
        try:
            arrays = self._service.between(lambda: self._part(save))
            self._service.check_job(hello)  # which the service knows now that it has answered
        except RefusedError as exc:
            _send(connection, messages.Refused(text=str(exc)))
            return
        found = sees_folder(save.folder, save.token)
        _send(connection, messages.PartTaken(found=found))
        if not found or not isinstance(_receive(connection), messages.WritePart):
            return
        try:
            with self._writing:
                record = write_part(save.folder, save.file, arrays)
        except (ValueError, OSError) as exc:
            _log.warning("%s cannot write its part of %s: %s.", self._name, printable(save.folder), exc)
            _send(connection, messages.Refused(text=_explained(save.folder, exc)))
        else:
            _send(connection, messages.PartWritten(bytes=record.bytes, crc32=record.crc32))


def _explained(folder: str, exc: Exception) -> str:
    text = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    try:
        return f"{text}; {shutil.disk_usage(folder).free} bytes are free in {folder}"
    except OSError:
        return f"{text}: {folder}"


def _receive(connection: Connection) -> messages.PartRequest:
    request: messages.PartRequest = receive_message(
        connection, messages.PartRequest, time.monotonic() + _PATIENCE_SECS
    )
    return request


def _send(connection: Connection, answer: messages.PartAnswer) -> None:
    connection.send_all([encode_frame(answer)], time.monotonic() + _PATIENCE_SECS)
