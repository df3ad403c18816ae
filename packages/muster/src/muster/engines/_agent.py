"""The agent on a host, which starts tasks for a launcher elsewhere: ``python -P -m muster.engines._agent``.

With the word ``signals`` after it, it passes signals on to the launcher, and does not end by them.
It reads requests from standard input and answers to standard output. When its launcher is gone, or silent, it
ends the tasks as if they had been started here: they finish a step and save first.
"""

import contextlib
import io
import os
import platform
import selectors
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import uuid
from pathlib import Path
from typing import BinaryIO, Never

import msgspec

from muster._clocks import date_now
from muster._errors import ClusterError
from muster._version import __version__
from muster.cluster import Task
from muster.cluster.roster import EVENTS, RunningClock
from muster.engines import _agent_messages as messages
from muster.engines._engine import TaskCondition, TaskExit, TaskRequest, TaskStart
from muster.engines._keeper import FINISH_SECS
from muster.engines._local import LocalEngine
from muster.engines._machine import this_machine
from muster.engines._program import what_is_wrong_with
from muster.net import FrameBuffer, encode_frame, free_address, split_address

_LOOK_SECS = 0.1
_CHUNK = 1 << 16
# What waits to be sent, at most: the rest of an output stays in its file until there is room, in bytes.
_MOST_WAITING = 1 << 20
# A variable that only processes of this agent's tasks have, in an attempt.
_MARK = "MUSTER_AGENT"

_decoder = msgspec.msgpack.Decoder(messages.Request)


class _LauncherGoneError(Exception):
    """The launcher has closed the connection, or is silent."""


class Agent:
    """Does what a launcher asks for.

    Args:
        requests: The descriptor to read from.
        replies: The descriptor to write to.
        folder: Where logs are kept until they are sent.
        passes_signals: Whether signals to this process are passed on to the launcher; else they end it.

    Attributes:
        job_code: The exit code of the job, once it is known.
    """

    def __init__(self, requests: int, replies: int, folder: Path, *, passes_signals: bool = False) -> None:
        self.job_code: int | None = None
        self._passes_signals = passes_signals
        self._signals: list[int] = []
        self._requests, self._replies = requests, replies
        for descriptor in (requests, replies):
            os.set_blocking(descriptor, False)
        self._folder = folder
        self._id = uuid.uuid4().hex
        self._attempt = 0
        self._frames = FrameBuffer(messages.LIMIT)
        self._waiting = bytearray()
        self._engine: LocalEngine | None = None
        self._grace_secs = 0.0
        self._outputs: dict[Task, BinaryIO] = {}
        self._exits: dict[Task, TaskExit] = {}  # of tasks whose output is not all sent yet
        self._told: dict[Task, TaskCondition] = {}
        self._clock = RunningClock()
        self._heard_at = self._pinged_at = self._clock()
        self._ended = False

    def run(self) -> None:
        """Greet, then serve until the launcher is gone, and all tasks have ended."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._note_signal)
        self.greet()
        with contextlib.suppress(_LauncherGoneError):
            while True:
                self._serve()
        self.end()

    def greet(self) -> None:
        """Say who answers."""
        hello = msgspec.json.encode(messages.AgentHello(__version__, platform.python_version()))
        self._waiting += messages.GREETING + hello + b"\n"

    def _note_signal(self, number: int, frame: object) -> None:
        if self._passes_signals:
            self._signals.append(number)
        else:
            self._ended = True

    def _serve(self) -> None:
        """Wait for a moment, and pass on what has come."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_READ)
            if self._engine is not None:
                selector.register(self._engine, selectors.EVENT_READ)
            if self._waiting:
                selector.register(self._replies, selectors.EVENT_WRITE)
            ready = {key.fd for key, _ in selector.select(_LOOK_SECS)}
        if self._requests in ready:
            self._read()
        now = self._clock()
        if self._ended or now - self._heard_at > messages.SILENCE_SECS:
            raise _LauncherGoneError
        if now - self._pinged_at >= messages.PING_SECS:
            self._pinged_at = now
            self._send(messages.Ping())
        while self._signals:
            self._send(messages.SignalReceived(self._signals.pop(0)))
        if self._engine is not None:
            self._report(self._engine)
        self._write()

    def _read(self) -> None:
        try:
            data = os.read(self._requests, _CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            raise _LauncherGoneError from exc
        if not data:
            raise _LauncherGoneError
        self._heard_at = self._clock()
        for message in self._frames.feed(data):
            self._obey(_decoder.decode(message))

    def _write(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self._replies, self._waiting[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError as exc:
            raise _LauncherGoneError from exc

    def _send(self, reply: messages.Reply) -> None:
        self._waiting += encode_frame(reply)

    def _obey(self, request: messages.Request) -> None:
        match request:
            case messages.PlaceTasks():
                self._place(request)
            case messages.StartTask():
                self._start(request)
            case messages.SignalTask(task, number):
                if self._engine is not None:
                    self._engine.send(task, number)
            case messages.EndAttempt():
                clean = self._engine is None or self._engine.end_attempt()
                for output in self._outputs.values():
                    output.close()
                self._outputs.clear()
                self._exits.clear()
                self._send(messages.AttemptEnded(clean))
            case messages.JobEnded(code):
                self.job_code = code
                raise _LauncherGoneError
            case messages.Ping():
                pass

    def _place(self, request: messages.PlaceTasks) -> None:
        if wrong := self._what_is_wrong_with(request):
            self._send(messages.PlaceRefused(wrong))
            return
        try:
            self._reserve(request)
        except (OSError, ClusterError) as exc:
            self._send(messages.PlaceRefused(f"there is no address at {request.address} for tasks: {exc}"))

    def _reserve(self, request: messages.PlaceTasks) -> None:
        """Reserve an address for each task, and tell it."""
        self._attempt += 1
        self._grace_secs = request.grace_secs
        resources = this_machine({**os.environ, **request.environ})
        if self._engine is None:
            _, found = free_address(f"{request.address}:1")
            self._engine = LocalEngine(
                resources,
                grace_secs=request.grace_secs,
                environ=os.environ,
                interface=split_address(found)[0],
                host=request.address,
                mark=_MARK,
            )
        numbers = [split_address(address)[1] for address in request.addresses]
        places = self._engine.place(request.tasks, TaskRequest(), request.program, numbers)
        addresses = [places[task].address for task in request.tasks]
        self._send(
            messages.TasksPlaced(addresses, resources.cores, resources.gpus, resources.memory, date_now())
        )

    def _what_is_wrong_with(self, request: messages.PlaceTasks) -> str:
        """Return why the program cannot run here; empty if it can."""
        workdir = Path(request.workdir or ".")
        if request.files:
            workdir = self._folder / "files"
            shutil.rmtree(workdir, ignore_errors=True)
            with tarfile.open(fileobj=io.BytesIO(request.files)) as archive:
                archive.extractall(workdir, filter="data")
        try:
            os.chdir(workdir)
        except OSError as exc:
            return f"there is no folder {workdir} to run in: {exc.strerror}"
        return what_is_wrong_with(request.program)

    def _start(self, request: messages.StartTask) -> None:
        if self._engine is None:
            return
        task = request.task
        log = self._folder / f"{task.type}-{task.index}.log"
        log.unlink(missing_ok=True)
        self._engine.start(
            TaskStart(
                task=task,
                program=request.program,
                environment={**request.environment, _MARK: f"{self._id}-{self._attempt}"},
                cores=request.cores,
                log=log,
                snapshots=request.snapshots,
            )
        )
        self._outputs[task] = log.open("rb")

    def _report(self, engine: LocalEngine) -> None:
        """Send what tasks have written, how they are, and who has ended."""
        for ended in engine.events():
            self._exits[ended.task] = ended
            self._told.pop(ended.task, None)
        for task, condition in engine.conditions().items():
            if self._told.get(task) != condition:
                self._told[task] = condition
                self._send(
                    messages.TaskReport(
                        task, condition.pid, condition.joined, condition.stopped, condition.finishing
                    )
                )
        for task, output in [*self._outputs.items()]:
            while len(self._waiting) < _MOST_WAITING and (data := output.read(_CHUNK)):
                self._send(messages.TaskOutput(task, data))
            if task in self._exits and len(self._waiting) < _MOST_WAITING:
                output.close()
                del self._outputs[task]
                self._send_exit(self._exits.pop(task))

    def _send_exit(self, ended: TaskExit) -> None:
        name = f"{ended.task.type}-{ended.task.index}."
        logs = {path.name.removeprefix(name): path for path in self._folder.glob(f"{name}*{EVENTS}")}
        self._send(
            messages.TaskGone(
                ended.task,
                ended.code,
                ended.told,
                ended.joined,
                ended.progress,
                {end: path.read_bytes() for end, path in logs.items()},
            )
        )

    def end(self) -> None:
        """Let tasks finish a step and save, then kill what is left: nobody else looks after them."""
        if self._engine is None:
            return
        for task in self._engine.conditions():
            self._engine.send(task, signal.SIGTERM)
        looks, finished_at = 0, 0  # counted, since a suspended machine is no reason to hurry
        while conditions := self._engine.conditions():
            looks += 1
            if not any(each.finishing for each in conditions.values()) or looks * _LOOK_SECS > FINISH_SECS:
                finished_at = finished_at or looks
                if (looks - finished_at) * _LOOK_SECS > self._grace_secs:
                    break
            time.sleep(_LOOK_SECS)
            self._engine.events()
        self._engine.close()


def main() -> Never:
    """Serve the launcher at the other end of standard input and output."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what anything prints must not get among the replies
    folder = Path(tempfile.mkdtemp(prefix="muster-agent-"))
    try:
        Agent(0, replies, folder, passes_signals="signals" in sys.argv[1:]).run()
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
