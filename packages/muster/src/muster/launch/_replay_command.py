"""``muster replay``: show what a job's launcher, or one of its tasks, has seen and done, and do it again."""

import argparse
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from muster._commands import add_command
from muster._errors import PathError
from muster._event_log import Replayed, as_python, is_cut, read, replay
from muster._paths import local_path
from muster._remote import fetch
from muster.cluster import Task, TaskType
from muster.cluster.roster import EVENTS, MEMBERSHIP_CLASSES, ROSTER_CLASSES, Termination
from muster.launch import _events as job
from muster.launch._job import Job
from muster.launch._job_record import known_jobs, read_record
from muster.launch._restarts import LimitedRestarts

# The log of events of the launcher, beside the output of the tasks and their logs.
LAUNCHERS_LOG = f"launcher{EVENTS}"
# The machines whose logs can be given to them again, with the classes that those name. A server's log cannot:
# what it answers depends on arrays, which may have gigabytes and are not in its log.
MACHINES: Mapping[str, Mapping[str, type]] = {
    "Job": {
        each.__name__: each
        for each in (
            Job,
            LimitedRestarts,
            TaskType,
            Task,
            Termination,
            signal.Signals,
            *get_args(job.Event),
            *get_args(job.Action),
        )
    },
    "Watch": ROSTER_CLASSES,
    "Membership": MEMBERSHIP_CLASSES,
}


def add_replay_command(commands: Any) -> None:
    """Add ``replay`` to the commands of a parser; see `add_run_command`."""
    add_command(commands, "replay").set_defaults(handler=_replay)


def _replay(args: argparse.Namespace) -> int:
    path = Path(args.log or ".")
    try:
        path = _path(args.log)
        fetch(str(path))
        text = path.read_text("utf-8")
        machine = next((name for name in MACHINES if f"\n{name}(" in f"\n{text}"), None)
        if machine is None or is_cut(text):
            return _show(path, text)
        return _print(path, replay(text, MACHINES[machine]))
    except FileNotFoundError:
        there = ", ".join(each.name for each in sorted(path.parent.glob(f"*{EVENTS}"))) or "none"
        print(
            f"muster replay: there is no {path}. A job that ends well keeps no log of events, nor does one "
            f"that still runs. Logs of events there: {there}.",
            file=sys.stderr,
        )
    except PathError as exc:
        print(f"muster replay: {exc}", file=sys.stderr)
    except (OSError, ValueError) as exc:
        print(f"muster replay: {path}: {exc}.", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


def _path(log: str | None) -> Path:
    """Return the log of events of that name: a file, or that of the launcher of a job or in a folder."""
    if log is None:
        ended = [record for record in known_jobs() if not record.runs]
        return Path(ended[-1].folder if ended else ".") / LAUNCHERS_LOG
    if (path := Path(local_path(log, remote=True))).is_dir() or read_record(path) is not None:
        return path / LAUNCHERS_LOG
    named = [] if path.exists() else [each for each in known_jobs() if each.name.startswith(log)]
    return Path(named[0].folder) / LAUNCHERS_LOG if len(named) == 1 else path


def _show(path: Path, text: str) -> int:
    """Print a log that can only be read."""
    began: float | None = None
    entries = [*read(text)]
    for each in entries:
        began = _print_entry(path, each.line, each.now, began, each.events, each.actions or ())
        if each.actions is None:
            print("  and then there was an error")
    cut = "its first ones were left out"
    why = cut if is_cut(text) else "it depends on arrays, which this log lacks"
    print(f"{len(entries)} entries, to be read. It cannot be done again: {why}.")
    return 0


def _print(path: Path, entries: Iterable[Replayed]) -> int:
    began: float | None = None
    count = 0
    for each in entries:
        count += 1
        events, actions = map(as_python, each.events), map(as_python, each.actions or ())
        began = _print_entry(path, each.line, each.now, began, events, actions)
        if each.error is not None:
            print(f"  raises {type(each.error).__name__}: {each.error}")
            how = "as it did then" if each.then is None else "which it did not do then"
            print(f"Line {each.line}: an error, {how}.")
            return int(each.then is not None)
        if each.then is not None and each.actions != each.then:
            print("  and then did:")
            for action in each.then:
                print(f"  ≠ {as_python(action)}")
            print(f"Line {each.line}: this version of muster acts otherwise than that which wrote the log.")
            return 1
    print(f"{count} entries: the same actions as then.")
    return 0


def _print_entry(
    path: Path,
    line: int,
    now: float | None,
    began: float | None,
    events: Iterable[str],
    actions: Iterable[str],
) -> float | None:
    """Print an entry, and return when the log's first one with a time was."""
    if now is None:
        print(f"{path}, line {line}: the beginning")
    else:
        began = now if began is None else began
        print(f"+{now - began:.3f} s, line {line}")
    for event in events:
        print(f"    {event}")
    for action in actions:
        print(f"  → {action}")
    return began
