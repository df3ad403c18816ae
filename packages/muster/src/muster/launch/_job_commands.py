"""``muster status``, ``logs``, ``page``, ``stop``, ``scale``, ``stacks``: look at jobs, and change them."""

import argparse
import contextlib
import datetime
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster._commands import add_command
from muster._errors import CredentialsError, PathError, PlacementError, StorageError, StrayPeerError
from muster._extras import PAGE_PACKAGES, install_command, missing_package
from muster._paths import local_path
from muster._remote import fetch, fetch_all, in_working_copy, refresh
from muster.cluster.roster import query_status
from muster.launch._cluster_jobs import cluster_job, print_logs, show_status, stop_job
from muster.launch._job_record import JobRecord, ask_for_workers, known_jobs, read_record
from muster.launch._job_state import TaskRecord
from muster.launch._lines import LineReader
from muster.launch._replay_command import LAUNCHERS_LOG
from muster.net import Credentials

# How often a job is looked at by --watch and -f, how long its end may take, and a task's answer, in seconds.
_WATCH_SECS, _FOLLOW_SECS, _STOP_SECS, _ANSWER_SECS = 1.0, 0.2, 630.0, 5.0
# How often --watch tells how a job is where there is no terminal, as `muster run` does, in seconds.
_TOLD_SECS = 30.0
_REMOTE_SECS = 2.0  # how often a job on an object store is looked at
_EVENTS = 5  # how many of the last events are shown
# After how long --watch says that a launcher elsewhere writes nothing, which it does every second or, to an
# object store, every ten, in seconds.
_SILENT_SECS = 60.0


class NoSuchJobError(Exception):
    """No job, or no task, is the one that was named."""


def add_job_commands(commands: Any) -> None:
    """Add the commands to those of a parser; see `add_run_command`."""
    acts = {
        "status": _status,
        "logs": _logs,
        "page": _page,
        "stop": _stop,
        "scale": _scale,
        "stacks": _stacks,
    }
    for name, act in acts.items():
        parser = add_command(commands, name, install_command=install_command("serve"))
        parser.set_defaults(handler=_reporting(name, act))


def _reporting(name: str, act: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def handler(args: argparse.Namespace) -> int:
        try:
            return act(args)
        except (NoSuchJobError, PathError, PlacementError, StorageError, ImportError) as exc:
            print(f"muster {name}: {exc}", file=sys.stderr)
            return 1
        except (FileNotFoundError, PermissionError, ProcessLookupError) as exc:
            print(f"muster {name}: {exc}. The job or its logs may be gone by now.", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 128 + signal.SIGINT

    return handler


def chosen_job(job: str | None) -> JobRecord:
    """Return the job of a name, or in a folder of logs; None for the only one that runs, else the last one.

    Raises:
        NoSuchJobError: There is none, or several run.
        PathError: The folder is on an object store for which there is no file system.
        StorageError: The object store cannot be read.
    """
    known = known_jobs()
    if job is not None and (record := read_record(place := local_path(job, remote=True))) is not None:
        here = (each for each in known if each.name == record.name)
        # What the launcher of this machine has not sent to the store yet is known, too.
        return record if place == job else next(here, record)
    if job is not None:
        found = [record for record in known if record.name.startswith(job)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(record.name for record in found or known) or "none"
        why = "several jobs have names that begin so" if found else "no job has that name or folder of logs"
        raise NoSuchJobError(f"{job!r}: {why}. There are: {names}")
    running = [record for record in known if record.runs]
    if len(running) > 1:
        raise NoSuchJobError(
            f"{len(running)} jobs run: name one. There are: {', '.join(record.name for record in running)}"
        )
    if not known:
        raise NoSuchJobError("no job runs here, and no logs of one are kept. Start one: muster run")
    return running[0] if running else known[-1]


def _tasks(record: JobRecord, names: Sequence[str]) -> list[TaskRecord]:
    """Return tasks by their names, such as ``worker-0`` or ``worker:0``; all for no names.

    Raises:
        NoSuchJobError: The job has no such task.
    """
    known = {f"{each.type}-{each.index}": each for each in record.tasks}
    wanted = [name.replace(":", "-").replace(" ", "-") for name in names]
    wanted = [f"{name}-0" if f"{name}-0" in known and name not in known else name for name in wanted]
    for name in wanted:
        if name not in known:
            raise NoSuchJobError(f"job {record.name} has no task {name}. It has: {', '.join(known)}")
    return [known[name] for name in wanted] or [*record.tasks]


def _status(args: argparse.Namespace) -> int:
    if (elsewhere := cluster_job(args.job)) is not None:
        return show_status(elsewhere, args)
    if args.json:
        records = [chosen_job(args.job)] if args.job else known_jobs()
        print(msgspec.json.encode([_as_data(record) for record in records]).decode())
        return 0
    running = [record for record in known_jobs() if record.runs]
    if args.job is None and len(running) != 1:
        for record in known_jobs():
            print(_headline(record))
        if not known_jobs():
            chosen_job(None)
        return 0
    record = chosen_job(args.job)
    if not args.watch:
        _print_status(record)
        return 0
    if sys.stdout.isatty():
        _watch_live(record)
    else:
        _watch(record)
    return 0


class _Silence:
    """Sees whether a launcher of another machine still writes, by this machine's clock alone."""

    def __init__(self) -> None:
        self._written, self._since = 0.0, 0.0

    def told(self, record: JobRecord, now: float) -> str:
        """Return what to say if the record has been the same for long; empty if it has not.

        Args:
            record: The record, as it is read now.
            now: The time in seconds, of a clock that nobody sets.
        """
        if record.written != self._written:
            self._written, self._since = record.written, now
        if record.host == socket.gethostname() or now - self._since < _SILENT_SECS:
            return ""
        return (
            f"The launcher on {record.host} has written nothing for {now - self._since:.0f} s: it may be "
            "gone, with its host."
        )


def _watch(record: JobRecord) -> None:
    """Print twice a minute how a job is, and at its end."""
    told, silence = -math.inf, _Silence()
    while record.runs:
        now = time.monotonic()
        silent = silence.told(record, now)
        if now - told >= _TOLD_SECS:
            _print_status(record)
            told = now
            if silent:
                print(silent)
        time.sleep(_WATCH_SECS)
        record = _again(record)
    _print_status(record)


def _watch_live(record: JobRecord) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from muster.launch._view import job_table

    console = Console(highlight=False, markup=False, emoji=False)
    silence = _Silence()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            silent = silence.told(record, time.monotonic())
            table = job_table(record.tasks, console.width)
            live.update(Group(table, *([silent] if silent else [])), refresh=True)
            if not record.runs:
                return
            time.sleep(_WATCH_SECS)
            record = _again(record)


def _as_data(record: JobRecord) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(record)
    return {**data, "runs": record.runs}


def _print_status(record: JobRecord) -> None:
    from rich.console import Console

    from muster.launch._view import job_table

    # Elsewhere than on a terminal nothing is left out for want of room.
    width = None if sys.stdout.isatty() else 200
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    print(_headline(record))
    console.print(job_table(record.tasks, console.width))
    for event in record.events[-_EVENTS:]:
        print(f"{_clock(event.time)}  {event.text}")
    print(f"Logs: {record.url or record.folder}")
    if record.page and record.runs:
        print(f"Page: {record.page}")
    if (Path(record.folder) / LAUNCHERS_LOG).exists():
        print(f"What the launcher has seen and done: muster replay {record.name}")


def _headline(record: JobRecord) -> str:
    took = datetime.timedelta(seconds=round(record.secs))
    if record.runs:
        how = f"has run for {took}"
    elif record.code is None:
        how = f"was killed with its launcher, after {took}"
    else:
        how = f"ended with exit code {record.code} after {took}"
    plural = "" if len(record.tasks) == 1 else "s"
    return f"job {record.name}: {' '.join(record.program)}: {len(record.tasks)} task{plural}, {how}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _logs(args: argparse.Namespace) -> int:
    if (elsewhere := cluster_job(args.job)) is not None:
        return print_logs(elsewhere, args)
    record = chosen_job(args.job)
    is_remote = in_working_copy(record.folder)
    readers: dict[str, LineReader] = {}
    with contextlib.ExitStack() as files:
        while True:
            runs = record.runs
            tasks = _tasks(record, args.tasks)  # a job that begins has none yet
            width = max((len(str(each.task)) for each in tasks), default=0)
            for each in tasks:
                fetch(each.log)
                if is_remote and not Path(each.log).exists():
                    continue  # it is sent next
                if each.log not in readers:
                    readers[each.log] = reader = LineReader(Path(each.log), 0)
                    files.callback(reader.close)
                elif is_remote:
                    readers[each.log].reopen()
                for line in readers[each.log].read(everything=not (runs and args.follow)):
                    print(line if len(tasks) == 1 else f"{each.task!s:{width}} | {line}")
            sys.stdout.flush()
            if not args.follow or not runs:
                return 0
            time.sleep(_REMOTE_SECS if is_remote else _FOLLOW_SECS)
            record = _again(record)


def _again(record: JobRecord) -> JobRecord:
    """Read the record of a job again; that of one that has ended well is gone."""
    refresh(record.folder)
    return read_record(record.folder) or msgspec.structs.replace(record, code=0)


def _page(args: argparse.Namespace) -> int:
    if missing := missing_package(PAGE_PACKAGES, "serve"):
        raise NoSuchJobError(missing)
    record = chosen_job(args.job)
    # Imported late: what is installed for the page alone.
    from muster.launch.page import PageServer

    try:
        server = PageServer(Path(record.folder), args.host, args.port, _secret_of(record))
    except OSError as exc:
        raise NoSuchJobError(str(exc)) from exc
    ends = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # the server's thread inherits this
    try:
        with server:
            print(f"Job {record.name} is shown at {server.url}", flush=True)
            number = _wait_for(ends, record)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 128 + number if number == signal.SIGINT else 0


def _wait_for(ends: set[signal.Signals], record: JobRecord) -> int:
    """Wait for a signal, and return it. Logs on an object store are copied meanwhile, as they change."""
    while in_working_copy(record.folder):
        try:
            fetch_all(record.folder)
        except StorageError as exc:
            print(f"muster page: {exc}. It is tried again.", file=sys.stderr)
        if (received := signal.sigtimedwait(ends, _REMOTE_SECS)) is not None:
            return received.si_signo
    return signal.sigwait(ends)


def _secret_of(record: JobRecord) -> bytes | None:
    """Return the secret of a job that runs here; None if it cannot be known."""
    for task in record.tasks if record.runs and record.host == socket.gethostname() else ():
        with contextlib.suppress(OSError, CredentialsError):
            return Credentials.from_environ(_environment_of(task.pid)).secret
    return None


def _stop(args: argparse.Namespace) -> int:
    if (elsewhere := cluster_job(args.job)) is not None:
        return stop_job(elsewhere)
    record = chosen_job(args.job)
    if not record.runs:
        raise NoSuchJobError(f"{_headline(record)}: there is nothing to stop")
    if record.host != socket.gethostname():
        raise NoSuchJobError(f"job {record.name} runs on {record.host}: stop it there")
    os.kill(record.pid, signal.SIGTERM)
    print(f"job {record.name}: its tasks finish their steps, save and end", file=sys.stderr)
    deadline = time.monotonic() + _STOP_SECS
    while record.runs:
        if time.monotonic() > deadline:
            print(f"job {record.name} has not ended within {_STOP_SECS:g} s", file=sys.stderr)
            return 1
        time.sleep(_FOLLOW_SECS)
    return 0


def _scale(args: argparse.Namespace) -> int:
    record = chosen_job(args.job)
    if not record.runs:
        raise NoSuchJobError(f"{_headline(record)}: there is nothing to scale")
    if record.scales is None:
        raise NoSuchJobError(
            f"job {record.name} needs all of its workers. Only elastic jobs scale: start one with a range, "
            "such as muster run --workers 2:6"
        )
    least, most = record.scales
    if not least <= args.workers <= most:
        raise NoSuchJobError(
            f"job {record.name} has {least} to {most} workers, as its --workers says, and not {args.workers}"
        )
    if record.host != socket.gethostname():
        raise NoSuchJobError(f"job {record.name} runs on {record.host}: scale it there")
    ask_for_workers(record, args.workers)
    print(f"job {record.name} is to have {args.workers} of {most} workers", file=sys.stderr)
    return 0


def _stacks(args: argparse.Namespace) -> int:
    record = chosen_job(args.job)
    code = 0
    for each in _tasks(record, args.tasks):
        try:
            if each.host not in ("", socket.gethostname()):
                raise StrayPeerError(f"it runs on {each.host}, and only tasks of this machine are asked")
            credentials = Credentials.from_environ(_environment_of(each.pid))
            status = query_status(each.address, _ANSWER_SECS, credentials, task=each.task, stacks=True)
            text = status.stacks.rstrip()
        except (OSError, StrayPeerError, CredentialsError) as exc:
            text, code = f"it does not say where its threads are: {exc}", 1
        print(f"=== {each.task}, process {each.pid}\n{text}")
    return code


def _environment_of(pid: int) -> dict[str, str]:
    """Return the variables that a process of this user was started with: the job's secret is there."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    named = (os.fsdecode(pair).partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in named}
