"""Read the start times of processes: from ``/proc`` on Linux, elsewhere from ``ps``, in whole seconds."""

import calendar
import os
import subprocess
import time
from pathlib import Path

_PROC = Path("/proc")


def start_ticks(pid: int | str = "self") -> int | None:
    """Return when a process began; None if it is gone, or nobody tells.

    It tells the process from later ones with its number. On Linux it is in ticks since the machine was
    started, elsewhere in seconds since the epoch.

    Args:
        pid: The process; ``"self"`` for this one.
    """
    if not _has_proc():
        return _start_by_ps(os.getpid() if pid == "self" else int(pid))
    try:
        state, *fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "XZ" else int(fields[18])


def process_start() -> float:
    """Return when this process began, in seconds since the epoch; now, where nobody tells."""
    if not _has_proc():
        return start_ticks() or time.time()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - (start_ticks() or 0) / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


def _start_by_ps(pid: int) -> int | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    # Its date is in local time, and in the words of the locale.
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=10)
        state, date = done.stdout.strip().split(maxsplit=1)
        began = time.strptime(f"{date} UTC", "%a %b %d %H:%M:%S %Y %Z")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # it is gone, or there is no such command
    return None if state[0] in "XZ" else calendar.timegm(began)
