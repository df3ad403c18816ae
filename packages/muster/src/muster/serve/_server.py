"""The server: sockets, signals, and what it prints."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from muster.serve._api import Api, error_answer
from muster.serve._metrics import PATHS
from muster.serve._model import Model

# How long requests may take after a signal to end, in seconds.
_GRACE_SECS = 30


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of a server.

    Attributes:
        folder: Has a folder for each version.
        name: The name of the model in URLs.
        host: The address to listen at.
        port: The port; 0 for any.
        most_rows: How many rows a batch has at most.
        wait_secs: How long a request may wait for others to come.
        most_jobs: How many requests may wait.
        most_bytes: How long the body of a request may be.
        poll_secs: How often to look for newer versions.
        access_log: Whether to print each request.
    """

    folder: Path
    name: str
    host: str
    port: int
    most_rows: int
    wait_secs: float
    most_jobs: int
    most_bytes: int
    poll_secs: float
    access_log: bool


def serve(options: ServeOptions) -> int:
    """Serve a model until Ctrl-C or SIGTERM; returns the exit code.

    Raises:
        OSError: The address cannot be used.
    """
    with contextlib.closing(_bound(options.host, options.port)) as listener:
        before = signal.signal(signal.SIGTERM, _end_at_once)
        try:
            model = Model(options.folder, options.name, options.most_rows, _say)
            model.look()
            if model.serving is None:
                _say(f"there is no version in {options.folder} yet that can be served: waiting for one")
            return asyncio.run(_serve(options, model, listener))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        finally:
            signal.signal(signal.SIGTERM, before)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, and does not listen yet."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _end_at_once(number: int, frame: object) -> None:
    """End while nothing is served yet."""
    raise SystemExit(0)


async def _serve(options: ServeOptions, model: Model, listener: socket.socket) -> int:
    ended_by: list[int] = []

    def end(number: signal.Signals) -> None:
        if ended_by:
            os._exit(128 + number)  # asked twice: at once
        ended_by.append(number)
        server.should_exit = True

    # Before anything is started that must be ended.
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    api = Api(model, most_rows=options.most_rows, most_jobs=options.most_jobs, wait_secs=options.wait_secs)
    server = _Server(
        uvicorn.Config(
            _application(api, options.most_bytes),
            log_level="info" if options.access_log else "warning",
            access_log=options.access_log,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECS,
        ),
        f"serving {_named(model)} at {_url(options, listener)}",
    )
    model.watch(options.poll_secs)
    try:
        await server.serve(sockets=[listener])
    finally:
        await asyncio.to_thread(model.close)
        await asyncio.to_thread(api.close)
    return 128 + signal.SIGINT if ended_by == [signal.SIGINT] else 0


class _Server(uvicorn.Server):
    """Says when it listens, and leaves signals to us: uvicorn would end by them, not with an exit code.

    Args:
        config: The configuration.
        started: What to say.
    """

    def __init__(self, config: uvicorn.Config, started: str) -> None:
        super().__init__(config)
        self._said = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"muster serve: {self._said}", flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _application(api: Api, most_bytes: int) -> Starlette:
    async def metrics(request: Request) -> Response:
        text, kind = api.metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    async def handle(request: Request) -> Response:
        try:
            body = await _body(request, most_bytes)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        if body is None:
            message = f"The request has more than {most_bytes} bytes, which this server takes at most."
            status, content = 413, error_answer(message)
        else:
            path = request.scope.get("raw_path") or request.scope["path"].encode()
            status, content = await api.answer(request.method, path.decode("ascii", "replace"), body)
        return Response(content, status, media_type="application/json")

    return Starlette(
        routes=[
            *(Route(path, metrics, methods=["GET"]) for path in PATHS),
            Route("/{path:path}", handle, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
        ]
    )


async def _body(request: Request, most_bytes: int) -> bytes | None:
    """Return the body of a request, or None if it is too long."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > most_bytes:
        return None
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            return None
    return b"".join(parts)


def _named(model: Model) -> str:
    number = model.serving
    return model.name if number is None else f"{model.name}, version {number},"


def _url(options: ServeOptions, listener: socket.socket) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{listener.getsockname()[1]}/v1/models/{options.name}"


def _say(message: str) -> None:
    print(f"muster serve: {message}", file=sys.stderr, flush=True)
