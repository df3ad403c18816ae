"""The coordinator's thread for one worker: sends it closures while the job lasts."""

import contextlib
import logging
import select
import socket
import threading
import time

from muster._errors import AuthenticationError, MissingPeerError, RosterError, StrayPeerError
from muster.distribute.coordinator._schedule import Schedule
from muster.distribute.coordinator._worker_connection import (
    Ask,
    CoordinatorRefusedError,
    WorkerConnection,
    drain,
)
from muster.net import Connection, ProtocolError
from muster.ps import Dialer

_log = logging.getLogger(__name__)

# How long to try to connect at once, and to pause between, in seconds.
_DIAL_SECS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# How long a worker may have another coordinator, which may be gone and is not missed yet, in seconds.
_BUSY_SECS = 60.0
# How long to wait for a worker when all are gone that there were, in seconds.
_DESERTED_SECS = 600.0
# After how many seconds without the worker, it is said once more.
_SAY_SECS = 30.0


class WorkerThread:
    """Has a worker run closures, one after the other; connects again when the connection breaks.

    Args:
        worker: The index of the worker.
        name: Its name and address, for messages.
        dial: Connects to it.
        ask: Raises OSError or StrayPeerError if its process does not answer within some seconds.
        origin: The random id of this coordinator, which parameter servers know.
        schedule: Where the closures come from.
    """

    def __init__(
        self, worker: int, name: str, dial: Dialer, ask: Ask, origin: str, schedule: Schedule
    ) -> None:
        self._worker = worker
        self._name = name
        self._dial = dial
        self._ask = ask
        self._origin = origin
        self._schedule = schedule
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        schedule.on_cancel(self._wake)
        self._thread = threading.Thread(target=self._run, name=f"muster-lane-{worker}", daemon=True)
        self._thread.start()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread, after ``Schedule.close``."""
        self._thread.join(timeout_secs)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is being woken, or has ended
            self._wake_out.send(b"!")

    def _run(self) -> None:
        with self._wake_in, self._wake_out:
            busy_since: float | None = None
            while not self._schedule.closed:
                connection = self._connected()
                if connection is None:
                    return
                with connection:
                    try:
                        WorkerConnection(
                            self._worker, self._name, connection, self._ask, self._wake_in, self._schedule
                        ).serve(self._origin)
                    except CoordinatorRefusedError as exc:
                        now = time.monotonic()
                        busy_since = now if busy_since is None else busy_since
                        if exc.busy and now - busy_since < _BUSY_SECS:
                            self._pause(_LONGEST_PAUSE)
                            continue
                        self._schedule.lose(self._worker)
                        self._schedule.fail_forever(RosterError(f"{self._name} refuses: {exc}."))
                        return
                    except (OSError, ProtocolError) as exc:
                        busy_since = None
                        if not self._schedule.closed:
                            _log.warning("%s is lost: %s. It is called again.", self._name, exc)
                        self._schedule.lose(self._worker)
                    except BaseException as exc:  # an error of this module must not leave others waiting
                        self._schedule.lose(self._worker)
                        self._schedule.fail_forever(exc)
                        raise

    def _pause(self, secs: float) -> None:
        """Wait for some time, unless this thread is woken."""
        if select.select([self._wake_in], [], [], secs)[0]:
            drain(self._wake_in)

    def _connected(self) -> Connection | None:
        """Call the worker until it answers; None when all ends."""
        began, pause, say_at = time.monotonic(), _FIRST_PAUSE, 0.0
        while not self._schedule.closed:
            try:
                connection = self._dial(_DIAL_SECS)
            except AuthenticationError as exc:
                self._schedule.fail_forever(type(exc)(f"{self._name} cannot be used: {exc}."))
                return None
            except (OSError, StrayPeerError) as exc:
                waited = time.monotonic() - began
                if self._schedule.deserted_secs >= _DESERTED_SECS:
                    self._schedule.fail_forever(
                        MissingPeerError(
                            f"All workers have been gone for {_DESERTED_SECS:.0f} s; {self._name} cannot be "
                            f"reached: {exc}. Start them again, and then the coordinator."
                        )
                    )
                    return None
                if waited >= say_at:
                    level = logging.WARNING if say_at else logging.INFO
                    _log.log(level, "%s cannot be reached for %.0f s: %s.", self._name, waited, exc)
                    say_at = waited + _SAY_SECS
                self._pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            _log.info("%s is connected.", self._name)
            return connection
        return None
