"""Wait for other workers with a timeout, and report the ones that cause the wait."""

import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence, Set
from typing import TypeAlias

from muster._errors import MissingPeerError
from muster.cluster.roster import RunningClock

Patience: TypeAlias = Callable[[int], float | None]
"""Rank of another worker -> the seconds that it may keep this one waiting; None for no limit."""

_log = logging.getLogger(__name__)

_LOG_SECS = 10.0
# The number of workers that are asked where they are stuck.
_SHOWN_STACKS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Others:
    """Answers questions about other workers, by rank: how long to wait, for whom they wait, their stacks.

    Args:
        patience: Returns how long a worker may keep this one waiting.
        awaited_by: Returns for whom a worker says that it waits itself; nobody if it does something else.
        stacks: Returns where a worker's threads are, or why that is not known.
        report: Tells the others for whom this worker waits, or that it waits no more.
    """

    patience: Patience
    awaited_by: Callable[[int], Set[int]]
    stacks: Callable[[int], str]
    report: Callable[[Set[int]], None]


def find_late(rank: int, awaited: Set[int], awaited_by: Callable[[int], Set[int]]) -> Set[int]:
    """Return those who keep a worker waiting: not who only waits for another, but for whom it waits.

    Args:
        rank: The worker.
        awaited: The workers whose messages it needs.
        awaited_by: Returns for whom a worker says that it waits; nobody if it does something else.

    Returns:
        The workers who do not wait; all that are awaited, if each waits for another of them.
    """
    seen, left, late = {rank}, set(awaited), set()
    while left:
        seen.add(each := left.pop())
        behind = awaited_by(each)
        if not behind:
            late.add(each)
        left |= behind - seen
    return late or awaited


class Wait:
    """A wait for messages, from its beginning on.

    Args:
        rank: The number of the worker that waits.
        names: The names of all workers, in the order of their ranks.
        others: What is known of them.
        clock: Counts the seconds in which this process runs.
    """

    def __init__(self, rank: int, names: Sequence[str], others: Others, clock: RunningClock) -> None:
        self._rank = rank
        self._names = names
        self._others = others
        self._clock = clock
        self._began = self._logged = self._idle = clock()
        self._reported: Set[int] = frozenset()

    def has_moved(self) -> None:
        """Note that a message, or a part of one, has come or gone."""
        self._idle = self._clock()

    def is_over(self) -> None:
        """Report that this worker waits no more, if it has reported that it does."""
        if self._reported:
            self._others.report(frozenset())

    def check(self, awaited: Set[int]) -> None:
        """Check how long nothing has moved; log it from time to time. Call it once a second.

        Args:
            awaited: The workers whose messages are missing, or who do not take this one's.

        Raises:
            MissingPeerError: The time of those who are late is up.
        """
        if awaited != self._reported:
            self._others.report(awaited)
            self._reported = awaited
        late = find_late(self._rank, awaited, self._others.awaited_by)
        now = self._clock()
        limits = [self._others.patience(peer) for peer in late]
        known = [limit for limit in limits if limit is not None]
        if len(known) < len(limits):
            self._idle = now  # one of them may take as long as it likes
        elif now - self._idle >= min(known):
            self._give_up(awaited, late, now - self._idle)
        if now - self._logged >= _LOG_SECS:
            self._logged = now
            text = f"{self._names[self._rank]} has waited {now - self._began:.0f} s for {self._text(late)}"
            if len(known) < len(limits):
                _log.info("%s.", text)
            else:
                _log.warning("%s, and gives up in %.0f s.", text, max(0.0, min(known) - now + self._idle))

    def _give_up(self, awaited: Set[int], late: Set[int], secs: float) -> None:
        for peer in sorted(late)[:_SHOWN_STACKS]:
            _log.error("%s is here:\n%s", self._names[peer], self._others.stacks(peer))
        between = awaited - late
        how = f"for whom {self._text(between)} waits, too" if between else "to whom it is connected"
        raise MissingPeerError(
            f"{self._names[self._rank]} has waited {secs:.0f} s for {self._text(late)}, {how}: look there "
            "for what takes so long. "
            "RunConfig(session_creation_timeout_secs=...) limits the wait for each other's first step, "
            "CommunicationOptions(timeout_seconds=...) for later ones.",
            tuple(self._names[peer] for peer in sorted(late)),
        )

    def _text(self, peers: Collection[int]) -> str:
        return ", ".join(self._names[peer] for peer in sorted(peers))
