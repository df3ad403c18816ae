"""The clocks of timers, throttles and delays, and of dates, in one place so that tests can set them."""

import time


def now() -> float:
    """Return the time in seconds, by a clock that nobody sets: for durations."""
    return time.monotonic()


def date() -> float:
    """Return the time in seconds since the epoch, by a clock that may be set: for what is shown or stored."""
    return time.time()


def sleep(secs: float) -> None:
    """Wait for some seconds."""
    time.sleep(secs)
