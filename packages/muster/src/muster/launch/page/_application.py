"""What the page's server answers: the record of a job, its curves, logs and metrics, and the page itself."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from muster._remote import in_working_copy
from muster.launch._job_record import JobRecord, read_curves, read_record
from muster.launch._lines import clean_line
from muster.launch.page._metrics import JobMetrics

# How often to look whether the record has changed, and how long a stream may be silent, in seconds.
_LOOK_SECS, _SILENT_SECS = 0.5, 15.0
# How much of a log is sent at a time, and at first, in bytes.
_MOST_BYTES = 1 << 16
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_ASSETS = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "grafana.json": ("grafana.json", "application/json"),
}
# The page loads nothing from elsewhere, and is in nobody's frame.
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


def page_application(folder: Path, closing: Callable[[], bool]) -> Starlette:
    """Return the application of a job's page.

    Args:
        folder: The folder of the job's logs.
        closing: Returns whether streams are to end.
    """
    metrics = JobMetrics(lambda: read_record(folder))

    def asset(request: Request) -> Response:
        found = _ASSETS.get(request.path_params.get("name", ""))
        if found is None:
            return PlainTextResponse(
                "There is nothing here. The page is at /, metrics are at /metrics.\n", 404
            )
        name, kind = found
        content = files("muster.launch.page").joinpath(name).read_bytes()
        return Response(content, media_type=kind, headers=_HEADERS)

    def state(request: Request) -> Response:
        record = read_record(folder)
        if record is None:
            return _gone()
        return Response(encoded(record), media_type="application/json", headers=_HEADERS)

    def curves(request: Request) -> Response:
        content = msgspec.json.encode(read_curves(folder))
        return Response(content, media_type="application/json", headers=_HEADERS)

    def log(request: Request) -> Response:
        record = read_record(folder)
        known = {} if record is None else {f"{each.type}-{each.index}": each for each in record.tasks}
        task = known.get(request.path_params["task"])
        if task is None:
            return PlainTextResponse(f"There is no such task. There are: {', '.join(known)}\n", 404)
        try:
            start = int(request.query_params.get("from", "-1"))
        except ValueError:
            return PlainTextResponse("from= must be a number of bytes.\n", 400)
        try:
            return JSONResponse(read_log(Path(task.log), start), headers=_HEADERS)
        except OSError as exc:
            return PlainTextResponse(f"{exc}\n", 404)

    def stacks(request: Request) -> Response:
        name = request.path_params["name"]
        if not re.fullmatch(r"stacks-\d+\.txt", name) or not (folder / name).exists():
            return PlainTextResponse("There is no such file.\n", 404)
        return PlainTextResponse((folder / name).read_text(errors="replace"), headers=_HEADERS)

    def prometheus(request: Request) -> Response:
        text, kind = metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    async def events(request: Request) -> Response:
        return StreamingResponse(_changes(folder, closing), media_type="text/event-stream", headers=_HEADERS)

    return Starlette(
        routes=[
            Route("/", asset),
            Route("/state", state),
            Route("/curves", curves),
            Route("/events", events),
            Route("/logs/{task}", log),
            Route("/metrics", prometheus),
            Route("/stacks/{name}", stacks),
            Route("/{name}", asset),
        ]
    )


def _gone() -> Response:
    return PlainTextResponse("The job has ended, and its record is gone with its logs.\n", 404)


def encoded(record: JobRecord) -> bytes:
    """Return a record as JSON, with what follows from it."""
    data: dict[str, Any] = msgspec.to_builtins(record)
    folder = Path(record.folder)
    stacks = sorted(folder.glob("stacks-*.txt"), key=lambda path: (len(path.name), path.name))
    return msgspec.json.encode({**data, "runs": record.runs, "stacks": [path.name for path in stacks]})


def read_log(path: Path, start: int) -> dict[str, Any]:
    """Return whole lines of a log.

    Args:
        path: The log.
        start: Where to begin, in bytes, as an answer has said before; a negative number for the last lines.

    Returns:
        The lines, and where the next ones begin: ``{"lines": [...], "next": 123}``.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        cut = start < 0 and size > _MOST_BYTES
        if start < 0 or start > size:
            start = max(0, size - _MOST_BYTES)
        file.seek(start)
        content = file.read(_MOST_BYTES)
    whole = content[: content.rfind(b"\n") + 1] or (content if len(content) == _MOST_BYTES else b"")
    lines = whole.split(b"\n")[:-1] if whole.endswith(b"\n") else [whole] if whole else []
    shown = [_COLOURS.sub("", clean_line(line)) for line in lines[1 if cut else 0 :]]
    return {"lines": shown, "next": start + len(whole)}


async def _changes(folder: Path, closing: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the record as server-sent events whenever it has changed, until the job has ended."""
    last, silent = 0.0, 0.0
    while not closing():
        record = await run_in_threadpool(read_record, folder)
        if record is None and in_working_copy(str(folder)):  # a new one is being copied from an object store
            await asyncio.sleep(_LOOK_SECS)
            continue
        if record is None:
            yield b"event: gone\ndata: {}\n\n"
            return
        if record.written != last:
            last, silent = record.written, 0.0
            yield b"data: " + encoded(record) + b"\n\n"
        elif silent >= _SILENT_SECS:
            silent = 0.0
            yield b": still here\n\n"
        if not record.runs:
            yield b"event: ended\ndata: {}\n\n"
            return
        await asyncio.sleep(_LOOK_SECS)
        silent += _LOOK_SECS
