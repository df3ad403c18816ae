"""The clock of timers, throttles and delays, in one place so that tests can set it."""

import time


def now() -> float:
    """Return the time in seconds since the epoch."""
    return time.time()


def sleep(secs: float) -> None:
    """Wait for some seconds."""
    time.sleep(secs)
