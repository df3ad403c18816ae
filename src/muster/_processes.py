"""When processes began, as Linux tells."""

import os
import time
from pathlib import Path


def start_ticks(pid: int | str = "self") -> int | None:
    """Return when a process began, in ticks since the machine was started; None if it is gone.

    Args:
        pid: The process; ``"self"`` for this one.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "XZ" else int(fields[18])


def process_start() -> float:
    """Return when this process began, in seconds since the epoch."""
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - (start_ticks() or 0) / os.sysconf("SC_CLK_TCK")
    return time.time() - age
