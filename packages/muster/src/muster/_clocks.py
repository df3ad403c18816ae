"""Dates that another machine may have written, whose clock differs from this one's."""

import logging
import time

_log = logging.getLogger(__name__)

# What counts as the same time: of other machines, and on one, where dates of files are rounded, in seconds.
_SAME_SECS = 5.0
_ROUNDED_SECS = 1.0


def date_now() -> float:
    """Return the time in seconds since the epoch, by this machine's clock, which may be set."""
    return time.time()


def is_ahead(date: float, now: float, what: str) -> bool:
    """Return whether a date is still to come, which only another clock can have told; that is logged.

    Args:
        date: When something was written, in seconds since the epoch.
        now: The time now, by this machine's clock.
        what: What was written, as the first words of a sentence.
    """
    ahead = date - now
    if ahead <= _ROUNDED_SECS:
        return False
    _log.warning(
        "%s is dated %.0f s in the future. The clock of the machine that wrote it is ahead of this one's by "
        "that much, or more: let both follow one clock, such as by NTP.",
        what,
        ahead,
    )
    return True


def clock_difference(told: float, asked_at: float, answered_at: float) -> float:
    """Return how far another machine's clock is ahead of this one's at least, in seconds; < 0: behind.

    Args:
        told: The time that it has told.
        asked_at: When it was asked, by this machine's clock.
        answered_at: When its answer was there.

    Returns:
        0 for clocks that may be the same, or nearly.
    """
    ahead = max(told - answered_at, 0.0) - max(asked_at - told, 0.0)
    return ahead if abs(ahead) > _SAME_SECS else 0.0
