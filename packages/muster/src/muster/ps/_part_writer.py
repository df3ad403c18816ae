"""Write a server's part of a checkpoint on a thread, while the server continues."""

import contextlib
import logging
import os
import shutil
import threading
import time

from muster._text import printable
from muster.checkpoint import link_base, sees_folder
from muster.net import Connection, Hello, ProtocolError, encode_frame
from muster.ps import _messages as messages
from muster.ps import _part_messages as parts
from muster.ps._machine import Machine
from muster.ps._replies import RefusedError
from muster.ps._service import Service
from muster.ps._shard_snapshot import Base, ShardSnapshot
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
        machine: Its values, asked for between two requests of the service. Rows of tables are given away for
            one checkpoint at a time.
    """

    def __init__(self, service: Service, machine: Machine) -> None:
        self._service = service
        self._machine = machine
        self._name = machine.name
        self._base: Base | None = None
        self._threads: set[threading.Thread] = set()
        # A chief whose connection broke asks again while its file may still be written.
        self._writing = threading.RLock()

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
        if not isinstance(save, parts.SavePart):
            raise ProtocolError(f"it begins with {messages.name_of(save)}")
        try:
            if sees_folder(save.folder, save.token):
                with self._writing if self._machine.has_rows else contextlib.nullcontext():
                    self._save_values(connection, hello, save)
            else:
                self._service.check_job(hello)
                _send(connection, parts.PartTaken(found=False))
        except RefusedError as exc:
            _send(connection, messages.Refused(text=str(exc)))

    def _save_values(self, connection: Connection, hello: Hello, save: parts.SavePart) -> None:
        has_base = self._base is not None and link_base(save.folder, self._base.path)
        values = self._service.between(lambda: self._machine.begin_part(save, not has_base, time.monotonic()))
        written = False
        try:
            self._service.check_job(hello)  # which the service knows now that it has answered
            _send(connection, parts.PartTaken(found=True))
            if isinstance(_receive(connection), parts.WritePart):
                with self._writing:
                    answer = self._write(save, values)
                written = isinstance(answer, parts.PartWritten)
                _send(connection, answer)
        finally:
            values.close(written)

    def _write(self, save: parts.SavePart, values: ShardSnapshot) -> parts.PartAnswer:
        base = self._base if values.needs_base else None
        try:
            record = values.write(save.folder, save.file)
        except (ValueError, OSError) as exc:
            _log.warning("%s cannot write its part of %s: %s.", self._name, printable(save.folder), exc)
            return messages.Refused(text=_explained(save.folder, exc))
        if values.rows is not None:
            # What was linked into this folder stays there when the earlier checkpoint is deleted.
            file, kept = (save.file, record) if base is None else (os.path.basename(base.path), base.record)
            self._base = Base(os.path.join(save.folder, file), kept)
        if base is None:
            return parts.PartWritten(bytes=record.bytes, crc32=record.crc32, counts=dict(values.keyed))
        return parts.PartWritten(
            bytes=record.bytes,
            crc32=record.crc32,
            counts=dict(values.keyed),
            changed=(*values.tables, *values.keyed),
            base=parts.EarlierFile(
                name=os.path.basename(base.path), bytes=base.record.bytes, crc32=base.record.crc32
            ),
        )


def _explained(folder: str, exc: Exception) -> str:
    text = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    try:
        return f"{text}; {shutil.disk_usage(folder).free} bytes are free in {folder}"
    except OSError:
        return f"{text}: {folder}"


def _receive(connection: Connection) -> parts.PartRequest:
    request: parts.PartRequest = receive_message(
        connection, parts.PartRequest, time.monotonic() + _PATIENCE_SECS
    )
    return request


def _send(connection: Connection, answer: parts.PartAnswer) -> None:
    connection.send_all([encode_frame(answer)], time.monotonic() + _PATIENCE_SECS)
