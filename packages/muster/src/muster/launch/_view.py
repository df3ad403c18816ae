"""The output of ``muster run``: a live table on a terminal, lines with prefixes elsewhere."""

import contextlib
import datetime
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muster._errors import StrayPeerError
from muster.cluster import Task, TaskType
from muster.cluster.roster import Progress, query_status
from muster.launch._job_state import TaskRecord
from muster.net import Credentials

_TIMEOUT_SECS = 0.5
# How long a task may take to say where its threads are, in seconds; and how many are asked, at most.
_STACKS_SECS, _MOST_STACKS = 2.0, 50


class StatusPoller:
    """Queries the progress of each task, time and again, while it is entered.

    Its thread and that of its owner replace the attributes as a whole, and never change them in place.

    Args:
        credentials: Those of the job.
        every_secs: How often.

    Attributes:
        addresses: The address of each task to query.
        answers: The progress of the tasks that answered the last query.
        hosts: The machines of tasks, as they have named them.
    """

    def __init__(self, credentials: Credentials, every_secs: float) -> None:
        self._credentials = credentials
        self._every_secs = every_secs
        self.addresses: Mapping[Task, str] = {}
        self.answers: Mapping[Task, Progress] = {}
        self.hosts: Mapping[Task, str] = {}
        self._wanted: list[tuple[Path, str]] = []  # files of stacks, and why they are written
        self._written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-status")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def write_stacks(self, folder: Path, why: str) -> Path:
        """Write the stacks of all tasks into a new file, soon; returns its path.

        Args:
            folder: Where the file is to be.
            why: Its first line.
        """
        self._written += 1
        path = folder / f"stacks-{self._written}.txt"
        self._wanted.append((path, why))
        return path

    def _run(self) -> None:
        while not self._stop.wait(self._every_secs):
            answers, hosts = {}, {**self.hosts}
            for task, address in self.addresses.items():
                if self._stop.is_set():
                    return
                try:
                    status = query_status(address, _TIMEOUT_SECS, self._credentials, task=task)
                except (OSError, StrayPeerError):
                    continue
                answers[task], hosts[task] = status.progress, status.host
            self.answers, self.hosts = answers, hosts
            while self._wanted:
                self._write(*self._wanted.pop(0))

    def _write(self, path: Path, why: str) -> None:
        parts = [why]
        for task, address in [*self.addresses.items()][:_MOST_STACKS]:
            if self._stop.is_set():  # the job ends, and does not wait for this
                break
            try:
                status = query_status(address, _STACKS_SECS, self._credentials, task=task, stacks=True)
                text = status.stacks.rstrip()
            except (OSError, StrayPeerError) as exc:
                text = f"it does not say where its threads are: {exc}"
            parts.append(f"=== {task}\n{text}")
        with contextlib.suppress(OSError):  # the folder is gone, or the disk is full
            path.write_text("\n".join(parts) + "\n")


_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")
_LAUNCHER = "muster"
# What the table shows of parameter servers: the header, the field of `Progress` and its format.
_SERVED = (
    ("pulls", "pulls", "d"),
    ("pushes", "pushes", "d"),
    ("queue", "queue", "d"),
    ("stale", "staleness", ".1f"),
)
# In a terminal that is too narrow for all, columns go in this order.
_LEAST_FIRST = (
    *("stale", "queue", "pulls", "pushes", "epoch", "comm wait", "input wait", "left", "loss", "closures/s"),
    *("steps/s", "step"),
)
# How often the progress is said where there is no table, in seconds.
_HEARTBEAT_SECS = 30.0
# How many lines a user is taken to see at once.
_SEEN_LINES = 30


class _Unfailing:
    """Writes to a stream; once that cannot be written to, what comes is dropped, for logs have it, too.

    Letters that the stream's encoding lacks become question marks.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, and return its length."""
        encoding = self._stream.encoding or "utf-8"
        self._try(lambda: self._stream.write(text.encode(encoding, "replace").decode(encoding)))
        return len(text)

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._try(self._stream.flush)

    def _try(self, deed: Callable[[], Any]) -> None:
        try:
            deed()
        except (OSError, ValueError):
            # Nobody reads any more, the terminal is gone or the disk is full. What Python still holds of it
            # would be tried again at the end of the process, which would give that another exit code.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())


class JobView:
    """Shows a job as lines with prefixes: tasks' on standard output, the launcher's on standard error.

    If nobody reads any more, as in ``muster run … | head`` or once a terminal is closed, the job goes on
    silently.

    Args:
        tasks: All tasks.
    """

    rows_every_secs = 2.0  # how often tasks are asked for their progress

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._width = max(len(name) for name in (*map(str, tasks), _LAUNCHER))
        self._tasks = tasks
        self._began = self._said_at = time.monotonic()
        self._evaluated = ""
        self._recent: deque[tuple[str, str]] = deque(maxlen=_SEEN_LINES)  # the last lines, and whose they are

    def lines(self, task: Task, lines: Sequence[str]) -> None:
        """Show lines of a task's output."""
        self._print(str(task), lines)

    def has_just_shown(self, task: Task, lines: Sequence[str]) -> bool:
        """Return whether the user still sees these lines of a task's output, just above."""
        return {(str(task), line) for line in lines} <= {*self._recent}

    def say(self, text: str) -> None:
        """Show a message of the launcher, in one or more lines."""
        self._print(_LAUNCHER, text.split("\n"))

    def begin(self, log_dir: str) -> None:
        """Say that the job begins, with which tasks, and where their logs are."""
        self.say(f"Starts {', '.join(map(str, self._tasks))}. Logs: {log_dir}")

    def show(self, rows: Sequence[TaskRecord], log_dir: str | None) -> None:
        """Show the states of the tasks every half a minute, and where their logs are."""
        now = time.monotonic()
        if now - self._said_at < _HEARTBEAT_SECS:
            return
        self._said_at = now
        after = datetime.timedelta(seconds=round(now - self._began))
        self.say("\n".join([f"After {after}:", *map(_line, rows), *self._new_evaluation(rows)]))

    def end(self) -> None:
        """Say that all tasks have ended well."""
        took = datetime.timedelta(seconds=round(time.monotonic() - self._began))
        self.say(f"All tasks have ended well, after {took}.")

    def _new_evaluation(self, rows: Sequence[TaskRecord]) -> list[str]:
        """Return a line about the newest evaluation, if it is another one than the last time."""
        before, self._evaluated = self._evaluated, _evaluation(rows) or self._evaluated
        return [] if self._evaluated == before else [f"Evaluated {self._evaluated}"]

    def close(self) -> None:
        """Restore the terminal; what was shown stays."""

    def _print(self, name: str, lines: Sequence[str]) -> None:
        self._recent.extend((name, line) for line in lines)
        stream = _Unfailing(sys.stderr if name == _LAUNCHER else sys.stdout)
        stream.write("".join(f"{name:{self._width}} | {line}\n" for line in lines))
        stream.flush()


class LiveView(JobView):
    """Shows a table at the foot of the terminal, one row a task, with the output of tasks above it.

    Args:
        tasks: All tasks.
        console: The terminal.
    """

    rows_every_secs = 1.0

    def __init__(self, tasks: Sequence[Task], console: Console) -> None:
        super().__init__(tasks)
        self._styles = {str(task): _COLOURS[i % len(_COLOURS)] for i, task in enumerate(tasks)}
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def begin(self, log_dir: str) -> None:
        """Say nothing: the table does."""

    def end(self) -> None:
        """Say nothing: the table does."""

    def show(self, rows: Sequence[TaskRecord], log_dir: str | None) -> None:
        """Draw the table."""
        below = [f"Evaluated {evaluation}"] if (evaluation := _evaluation(rows)) else []
        below += [] if log_dir is None else [f"Logs: {log_dir}"]
        table = job_table(rows, self._console.width, self._styles)
        # Not the table's caption, which would be broken at the width of the table.
        self._live.update(Group(table, *(Text(line, "dim") for line in below)), refresh=True)

    def close(self) -> None:
        """Stop drawing; the table stays on the terminal."""
        self._live.stop()

    def _print(self, name: str, lines: Sequence[str]) -> None:
        self._recent.extend((name, line) for line in lines)
        style = self._styles.get(name, "bold")
        parts = [Text.assemble((f"{name:{self._width}} | ", style), Text.from_ansi(line)) for line in lines]
        if parts:
            # In one call, because each one redraws the table.
            self._console.print(Text("\n").join(parts), soft_wrap=True)


def job_table(
    rows: Sequence[TaskRecord], width: int, styles: Mapping[str, str] = MappingProxyType({})
) -> Table:
    """Return a table of tasks, and how far they are.

    Args:
        rows: A task each.
        width: That of the terminal, in characters: words are not broken, columns go that say the least.
        styles: The colours of tasks, by their names.
    """
    columns = {name: [cell(row) for row in rows] for name, cell in _columns(rows).items()}
    names = [str(row.task) for row in rows]
    states = [_state(row) for row in rows]
    for name in _LEAST_FIRST:
        if _width(columns, names, states) <= width:
            break
        columns.pop(name, None)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("task", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for number, name in enumerate(names):
        cells = [each[number] for each in columns.values()]
        table.add_row(Text(name, styles.get(name, "")), *cells, Text(states[number]))
    return table


def make_view(tasks: Sequence[Task]) -> JobView:
    """Return the view for standard output: with a table on a terminal, else lines alone."""
    stream = cast(TextIO, _Unfailing(sys.stdout))
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    # Not what the console takes for a terminal: that is any stream, where FORCE_COLOR is set.
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        return LiveView(tasks, console)
    return JobView(tasks)


def _columns(rows: Sequence[TaskRecord]) -> dict[str, Callable[[TaskRecord], str]]:
    """Return the columns of numbers that some of the tasks may have, in order."""

    def number(field: str, form: str) -> Callable[[TaskRecord], str]:
        return lambda row: _number(getattr(row.progress or Progress(), field), form)

    def share(kind: str) -> Callable[[TaskRecord], str]:
        return lambda row: _number(row.waits.get(kind, 0.0) if row.waits else None, ".0%")

    columns: dict[str, Callable[[TaskRecord], str]] = {}
    if any(row.progress and row.progress.epoch for row in rows):
        columns["epoch"] = _epoch
    columns |= {"step": _step, "steps/s": number("steps_per_sec", ".1f")}
    if any(row.progress and row.progress.closures is not None for row in rows):
        columns["closures/s"] = number("closures_per_sec", ".1f")
    if any(row.progress and row.progress.max_steps for row in rows):
        columns["left"] = _time_left
    columns |= {"loss": number("loss", ".4g"), "input wait": number("input_wait", ".0%")}
    if any("communication" in row.waits for row in rows):
        columns["comm wait"] = share("communication")
    if any(row.task.type == TaskType.PS for row in rows):
        columns |= {header: number(field, form) for header, field, form in _SERVED}
    return columns


def _width(columns: Mapping[str, Sequence[str]], names: Sequence[str], states: Sequence[str]) -> int:
    """Return how wide a table is, in characters, in which at least the first word of a state has room."""
    widths = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    words = [state.split(":")[0] for state in ("state", *states)]
    return max(map(len, ("task", *names))) + sum(width + 2 for width in widths) + 2 + max(map(len, words))


def _step(row: TaskRecord) -> str:
    known = row.progress or Progress()
    return _number(known.step, "d") + (f" of {known.max_steps}" if known.max_steps else "")


def _epoch(row: TaskRecord) -> str:
    known = row.progress or Progress()
    return _number(known.epoch, "d") + (f" of {known.epochs}" if known.epoch and known.epochs else "")


def _state(row: TaskRecord) -> str:
    if not row.answers or row.progress is None:
        return row.state
    waits = f": waits for {row.progress.waits_for}" if row.progress.waits_for else ""
    return f"{row.progress.state}{waits}"


def _evaluation(rows: Sequence[TaskRecord]) -> str:
    """Return the newest evaluation, for people; empty for none."""
    found = [row.progress.evaluation for row in rows if row.progress and row.progress.evaluation]
    return found[-1] if found else ""


def _line(row: TaskRecord) -> str:
    """Return how far a task is, for people."""
    known = row.progress or Progress()
    said = [] if known.epoch is None else [f"epoch {_epoch(row)}"]
    said += [] if known.step is None else [f"step {_step(row)}"]
    said += [] if known.steps_per_sec is None else [f"{known.steps_per_sec:.1f} steps/s"]
    said += [] if known.closures_per_sec is None else [f"{known.closures_per_sec:.1f} closures/s"]
    said += [] if known.loss is None else [f"loss {known.loss:.4g}"]
    left = _time_left(row)
    said += [] if left == "-" else [f"{left} left"]
    return f"  {row.task} {', '.join([_state(row), *said])}"


def _time_left(row: TaskRecord) -> str:
    """Return how long a task still trains, such as 1:02:03; a dash if nobody knows."""
    if not row.answers or row.left_secs is None:
        return "-"
    return str(datetime.timedelta(seconds=round(row.left_secs)))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
