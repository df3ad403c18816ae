"""The output of ``muster run``: a live table on a terminal, lines with prefixes elsewhere."""

import contextlib
import dataclasses
import datetime
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muster._errors import StrayPeerError
from muster.cluster import Task, TaskType
from muster.cluster.roster import Progress, query_status
from muster.net import Credentials

_EVERY_SECS = 1.0
_TIMEOUT_SECS = 0.5


class StatusPoller:
    """Queries the progress of each task once a second while it is entered.

    Its thread and that of its owner replace the attributes as a whole, and never change them in place.

    Args:
        credentials: Those of the job.

    Attributes:
        addresses: The address of each task to query.
        answers: The progress of the tasks that answered the last query.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.addresses: Mapping[Task, str] = {}
        self.answers: Mapping[Task, Progress] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-status")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECS):
            answers = {}
            for task, address in self.addresses.items():
                try:
                    status = query_status(address, _TIMEOUT_SECS, self._credentials, task=task)
                    answers[task] = status.progress
                except (OSError, StrayPeerError):
                    continue
            self.answers = answers


_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")
_LAUNCHER = "muster"
# What the table shows of parameter servers: the header, the field of `Progress` and its format.
_SERVED = (
    ("pulls", "pulls", "d"),
    ("pushes", "pushes", "d"),
    ("queue", "queue", "d"),
    ("stale", "staleness", ".1f"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The state of one task.

    Args:
        task: The task.
        state: The state of its process.
        progress: The last progress that it has reported; None for none.
        answers: Whether it reports its progress now.
    """

    task: Task
    state: str
    progress: Progress | None = None
    answers: bool = False


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


class View:
    """Shows a job as lines with prefixes: tasks' on standard output, the launcher's on standard error.

    If nobody reads any more, as in ``muster run … | head`` or once a terminal is closed, the job goes on
    silently.

    Args:
        tasks: All tasks.
    """

    wants_rows = False  # whether `show` has an effect

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._width = max(len(name) for name in (*map(str, tasks), _LAUNCHER))

    def lines(self, task: Task, lines: Sequence[str]) -> None:
        """Show lines of a task's output."""
        self._print(str(task), lines)

    def say(self, text: str) -> None:
        """Show a message of the launcher, in one or more lines."""
        self._print(_LAUNCHER, text.split("\n"))

    def show(self, rows: Sequence[Row], log_dir: Path | None) -> None:
        """Show the states of the tasks, and where their logs are; there is no place for them here."""

    def close(self) -> None:
        """Restore the terminal; what was shown stays."""

    def _print(self, name: str, lines: Sequence[str]) -> None:
        stream = _Unfailing(sys.stderr if name == _LAUNCHER else sys.stdout)
        stream.write("".join(f"{name:{self._width}} | {line}\n" for line in lines))
        stream.flush()


class LiveView(View):
    """Shows a table at the foot of the terminal, one row a task, with the output of tasks above it.

    Args:
        tasks: All tasks.
        console: The terminal.
    """

    wants_rows = True

    def __init__(self, tasks: Sequence[Task], console: Console) -> None:
        super().__init__(tasks)
        self._styles = {str(task): _COLOURS[i % len(_COLOURS)] for i, task in enumerate(tasks)}
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def show(self, rows: Sequence[Row], log_dir: Path | None) -> None:
        """Draw the table."""
        self._live.update(self._table(rows, log_dir), refresh=True)

    def close(self) -> None:
        """Stop drawing; the table stays on the terminal."""
        self._live.stop()

    def _print(self, name: str, lines: Sequence[str]) -> None:
        style = self._styles.get(name, "bold")
        parts = [Text.assemble((f"{name:{self._width}} | ", style), Text.from_ansi(line)) for line in lines]
        if parts:
            # In one call, because each one redraws the table.
            self._console.print(Text("\n").join(parts), soft_wrap=True)

    def _table(self, rows: Sequence[Row], log_dir: Path | None) -> Group:
        evaluations = [row.progress.evaluation for row in rows if row.progress and row.progress.evaluation]
        below = [f"Evaluated {evaluation}" for evaluation in evaluations[-1:]]
        below += [] if log_dir is None else [f"Logs: {log_dir}"]
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("task")
        serves = any(row.task.type == TaskType.PS for row in rows)
        served = _SERVED if serves else ()
        ends = any(row.progress and row.progress.max_steps for row in rows)
        left = ("left",) if ends else ()
        for name in ("step", "steps/s", *left, "loss", "input wait", *(header for header, _, _ in served)):
            table.add_column(name, justify="right")
        table.add_column("state", overflow="fold")
        for row in rows:
            known = row.progress or Progress()
            waits = f": waits for {known.waits_for}" if known.waits_for else ""
            table.add_row(
                Text(str(row.task), self._styles[str(row.task)]),
                _number(known.step, "d") + (f" of {known.max_steps}" if known.max_steps else ""),
                _number(known.steps_per_sec, ".1f"),
                *((_time_left(known) if row.answers else "-",) if ends else ()),
                _number(known.loss, ".4g"),
                _number(known.input_wait, ".0%"),
                *(_number(getattr(known, name), form) for _, name, form in served),
                Text(f"{known.state}{waits}" if row.answers else row.state),
            )
        # Not the table's caption, which would be broken at the width of the table.
        return Group(table, *(Text(line, "dim") for line in below))


def make_view(tasks: Sequence[Task]) -> View:
    """Return the view for standard output: with a table on a terminal, else lines alone."""
    stream = cast(TextIO, _Unfailing(sys.stdout))
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(tasks, console)
    return View(tasks)


def _time_left(progress: Progress) -> str:
    """Return how long training goes on at its present speed, such as 1:02:03; a dash if nobody knows."""
    if progress.max_steps is None or progress.step is None or not progress.steps_per_sec:
        return "-"
    secs = round(max(0, progress.max_steps - progress.step) / progress.steps_per_sec)
    return str(datetime.timedelta(seconds=secs))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
