"""The server of a job's page, on a thread beside the launcher."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from muster.launch.page._access import Access, is_loopback, page_key
from muster.launch.page._application import page_application

# How long a request may take when the server ends, in seconds.
_GRACE_SECS = 1


class PageServer:
    """Serves the page of a job while it is entered.

    Args:
        folder: The folder of the job's logs.
        host: The address to listen at.
        port: The port; 0 for any.
        secret: The job's secret, from which the key follows; None if it has none.

    Attributes:
        url: The page's address. For a host that other machines reach, it ends in the key.
        address: The same without a key.

    Raises:
        OSError: The address cannot be listened at.
    """

    def __init__(self, folder: Path, host: str, port: int, secret: bytes | None = None) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._listener = socket.socket(family, kind, protocol)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(address)
        except OSError as exc:
            self._listener.close()
            raise OSError(
                f"the page cannot listen at {host}:{port}: {exc.strerror}. Choose another host or port"
            ) from exc
        key = "" if is_loopback(host) else page_key(secret)
        name = f"[{host}]" if ":" in host else host
        if host in ("", "0.0.0.0", "::"):
            name = socket.gethostname()
        self.address = f"http://{name}:{self._listener.getsockname()[1]}/"
        self.url = f"{self.address}?key={key}" if key else self.address
        self._server = _QuietServer(
            uvicorn.Config(
                Access(page_application(folder, lambda: self._server.should_exit), key),
                log_config=None,
                log_level="error",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECS,
            )
        )
        self._thread = threading.Thread(target=self._run, name="muster-page", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])

    def __enter__(self) -> Self:
        self._listener.listen()  # from now on connections wait for the thread
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


class _QuietServer(uvicorn.Server):
    """Leaves signals to the launcher."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
