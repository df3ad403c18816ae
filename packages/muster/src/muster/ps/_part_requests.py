"""The chief's side of a checkpoint that servers write side by side."""

import logging
import os
import threading
import time
from collections.abc import Sequence

from muster._errors import CheckpointError, StrayPeerError
from muster._text import printable
from muster.checkpoint import FileRecord, PartRecord
from muster.net import Connection, ProtocolError, encode_frame
from muster.ps import _messages as messages
from muster.ps import _part_messages as parts
from muster.ps._retrying_connection import Dialer
from muster.ps._wire import receive_message

_log = logging.getLogger(__name__)

# How long to try to connect at once, to pause between, to go on trying, and to wait for an answer; and
# how long a server may write; in seconds.
_DIAL_SECS, _PAUSE_SECS, _REACH_SECS, _ANSWER_SECS, _WRITE_SECS = 10.0, 0.2, 600.0, 60.0, 3600.0


class PartRequest:
    """Asks one server to write its part of a checkpoint.

    If the connection breaks, the server is asked again: it may be started again, and have values again.

    Args:
        server: The name and the address of the server, for messages.
        dial: Connects to it.
        save: What to ask.
        reach_secs: How long to try to reach it, in seconds.
        write_secs: How long it may write, in seconds.
    """

    def __init__(
        self,
        server: str,
        dial: Dialer,
        save: parts.SavePart,
        *,
        reach_secs: float = _REACH_SECS,
        write_secs: float = _WRITE_SECS,
    ) -> None:
        self._server = server
        self._dial = dial
        self._save = save
        self._reach_secs = reach_secs
        self._write_secs = write_secs
        self._connection: Connection | None = None

    def ask(self) -> None:
        """Let the server hold the values that it has now; `begin` waits for that."""
        try:
            self._connection = self._dial(_DIAL_SECS)
            self._connection.send_all([encode_frame(self._save)], time.monotonic() + _ANSWER_SECS)
        except StrayPeerError as exc:
            raise self._failed(str(exc)) from exc
        except OSError as exc:
            _log.warning("%s cannot be reached for its part of a checkpoint: %s.", self._server, exc)
            self.close()

    def begin(self) -> bool:
        """Wait until the server holds its values, and return whether it sees the folder.

        Raises:
            CheckpointError: It cannot be reached, or refuses.
        """
        deadline = time.monotonic() + self._reach_secs
        while True:
            try:
                answer = self._hear(_ANSWER_SECS)
            except OSError as exc:
                self.close()
                if time.monotonic() + _PAUSE_SECS >= deadline:
                    raise self._failed(f"it cannot be reached: {exc}") from exc
                threading.Event().wait(_PAUSE_SECS)
                self.ask()
                continue
            if not isinstance(answer, parts.PartTaken):
                raise self._failed(f"it gives an answer that does not fit: {messages.name_of(answer)}")
            return answer.found

    def go(self) -> None:
        """Let it write; `wait` returns the answer."""
        if self._connection is not None:
            try:
                self._connection.send_all([encode_frame(parts.WritePart())], time.monotonic() + _ANSWER_SECS)
            except OSError:
                self.close()  # it is asked again

    def wait(self) -> PartRecord:
        """Return the record of the file, once it is on the disk.

        Raises:
            CheckpointError: It cannot be written.
        """
        deadline = time.monotonic() + self._write_secs
        while True:
            if self._connection is None:
                self.ask()
                if not self.begin():
                    raise self._failed(f"it does not see {self._save.folder} any more")
                self.go()
            try:
                answer = self._hear(self._write_secs)
            except TimeoutError as exc:
                raise self._failed(f"it has written for {self._write_secs:g} s, and is not done") from exc
            except OSError as exc:
                if time.monotonic() + _PAUSE_SECS >= deadline:
                    raise self._failed(f"its connection breaks when it writes: {exc}") from exc
                _log.warning(
                    "The connection to %s is broken while it writes its part of a checkpoint: %s. It is "
                    "asked again.",
                    self._server,
                    exc,
                )
                self.close()
                threading.Event().wait(_PAUSE_SECS)
                continue
            self.close()
            if not isinstance(answer, parts.PartWritten):
                raise self._failed(f"it gives an answer that does not fit: {messages.name_of(answer)}")
            file, base = FileRecord(answer.bytes, answer.crc32), answer.base
            if base is None:
                return PartRecord(file, counts=answer.counts)
            record = FileRecord(base.bytes, base.crc32)
            return PartRecord(file, answer.changed, (base.name, record), answer.counts)

    def close(self) -> None:
        """Close the connection. A server that was not told to write forgets what it holds for that."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _hear(self, secs: float) -> parts.PartAnswer:
        if self._connection is None:
            raise ConnectionResetError("end of the connection")
        try:
            answer: parts.PartAnswer = receive_message(
                self._connection, parts.PartAnswer, time.monotonic() + secs
            )
        except ProtocolError as exc:
            raise self._failed(str(exc)) from exc
        if isinstance(answer, messages.Refused):
            raise self._failed(printable(answer.text))
        return answer

    def _failed(self, why: str) -> CheckpointError:
        self.close()
        return CheckpointError(
            f"{self._server} has not written its part of the checkpoint {self._save.folder}: {why}. Earlier "
            "checkpoints are untouched."
        )


class PartRequests:
    """Asks all servers.

    Args:
        requests: One for each server.
    """

    def __init__(self, requests: Sequence[PartRequest]) -> None:
        self._requests = requests

    def begin(self) -> list[bool]:
        """Let all servers hold the values that they have now, and begin to write if all of them see the
        folder; return which do.

        Raises:
            CheckpointError: One cannot be reached, or refuses; none writes.
        """
        try:
            for request in self._requests:
                request.ask()
            found = [request.begin() for request in self._requests]
            if all(found):
                for request in self._requests:
                    request.go()
                return found
        except BaseException:
            self._close()
            raise
        self._close()
        return found

    def wait(self) -> list[PartRecord]:
        """Return the records of the files, once no server writes any more.

        Raises:
            CheckpointError: One cannot write: the first of those that cannot.
        """
        records: list[PartRecord] = []
        failures: list[CheckpointError] = []
        for request in self._requests:
            try:
                records.append(request.wait())
            except CheckpointError as exc:
                failures.append(exc)
        if failures:
            raise failures[0]
        return records

    def _close(self) -> None:
        for request in self._requests:
            request.close()


class PartSavers:
    """Lets all servers of a job write their parts of checkpoints.

    Args:
        servers: The name of each server, and what connects to it for that.
    """

    def __init__(self, servers: Sequence[tuple[str, Dialer]]) -> None:
        self._servers = servers
        self._told = False  # that servers do not see the folder

    def begin(self, saves: Sequence[parts.SavePart]) -> PartRequests | None:
        """Let the servers write the values that they have now; None if one does not see the folder.

        Args:
            saves: What to ask of each.

        Raises:
            CheckpointError: One cannot be reached, or refuses; none writes.
        """
        asked = zip(self._servers, saves, strict=True)
        requests = PartRequests([PartRequest(name, dial, save) for (name, dial), save in asked])
        blind = [name for (name, _), found in zip(self._servers, requests.begin(), strict=True) if not found]
        if not blind:
            return requests
        if not self._told:
            _log.warning(
                "%s does not see %s, which is not on storage that it shares with the chief: the chief reads "
                "all values, and writes the checkpoints alone.",
                " and ".join(blind),
                os.path.dirname(saves[0].folder),
            )
        self._told = True
        return None
