"""Tell an evaluator in another process when training has ended."""

import enum
import logging
import math

from muster._errors import PeerLostError
from muster.checkpoint import TrainingNote

_log = logging.getLogger(__name__)

# How long after training that ended by itself another one may begin here, in seconds.
_SETTLE_SECS = 5.0
# How long training that is gone may take to go on, or to begin where an earlier one has ended, in seconds.
_GO_ON_SECS = 600.0


class Stage(enum.Enum):
    """The stages of training, as its note tells them."""

    UNKNOWN = enum.auto()
    ON = enum.auto()
    ENDED = enum.auto()
    GONE = enum.auto()

    @classmethod
    def of(cls, note: TrainingNote | None) -> "Stage":
        """Return what a note tells now."""
        if note is None:
            return cls.UNKNOWN
        if note.is_on:
            return cls.ON
        return cls.ENDED if note.ended else cls.GONE


class TrainingEnd:
    """Tells when to wait for training no longer; pure.

    Args:
        directory: The directory of the checkpoints, for messages.
        first: The note that was there when the evaluator began: it may be left from an earlier training.
        fresh: Whether that note was written since the evaluator's process began.
        now: The time in seconds.
    """

    def __init__(self, directory: str, first: TrainingNote | None, *, fresh: bool, now: float) -> None:
        self._directory = directory
        self._first = first
        self._seen = fresh
        self._stage: Stage | None = None
        self._since = now

    def has_come(self, note: TrainingNote | None, now: float) -> bool:
        """Return whether training has ended by itself.

        Args:
            note: The note now.
            now: The time in seconds.

        Raises:
            PeerLostError: Training is gone for long, and had not ended.
        """
        stage = Stage.of(note)
        self._seen = self._seen or stage is Stage.ON or note != self._first
        if stage is not self._stage:
            self._stage, self._since = stage, now
            self._say()
        if now - self._since < self._limit():
            return False
        if stage is Stage.GONE:
            raise PeerLostError(
                f"Nobody has trained in {self._directory} for {now - self._since:.0f} s, and training had "
                "not ended: the evaluator does not wait any longer. Start the program again that trains, and "
                "then this evaluator."
            )
        return True

    def _limit(self) -> float:
        match self._stage:
            case Stage.ENDED:
                return _SETTLE_SECS if self._seen else _GO_ON_SECS
            case Stage.GONE:
                return _GO_ON_SECS
            case _:
                return math.inf  # as in TensorFlow: nothing tells when nobody writes any more

    def _say(self) -> None:
        if (secs := self._limit()) < math.inf:
            does = "has ended" if self._stage is Stage.ENDED else "is gone, and had not ended"
            _log.info("Training in %s %s. Waiting %.0f s for another.", self._directory, does, secs)
