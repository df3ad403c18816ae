"""Tell an evaluator, from the checkpoint directory, whether training runs, has ended or has died."""

import logging
from contextlib import suppress

from muster._clocks import is_ahead
from muster._errors import CheckpointError, PeerLostError
from muster.checkpoint import CheckpointInfo, WriterWatch, list_checkpoints, read_metadata
from muster.estimator.session import clock
from muster.lifecycle import process_start

_log = logging.getLogger(__name__)

# How long an evaluator waits for training to begin: two hours, as tasks wait for each other.
_BEGIN_SECS = 7200.0
# How long after training that ended by itself the program may train again, which a call after another does.
_SETTLE_SECS = 5.0
# How long it waits for training that is gone to go on, or to begin again where an earlier one has ended.
_GO_ON_SECS = 600.0


class TrainingWatch:
    """Tells training that goes on from training that has ended, and from training that died.

    Training has ended if nobody writes into the directory, and the last checkpoint says so. That checkpoint
    may be left from an earlier job, if nobody has trained since this process began: then training may still
    begin.

    Args:
        model_dir: The directory of the checkpoints.

    Attributes:
        seen: Whether somebody has trained since this process began.
    """

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir
        self._writer = WriterWatch(model_dir)
        self._first = self._newest()
        self._is_fresh = self._first is not None and _is_since(self._first, process_start())
        self.seen = False
        self._absent_since = clock.now()
        self._warned = False

    def is_on(self) -> bool:
        """Return whether somebody trains now."""
        if not self._writer.is_writing():
            return False
        self.seen, self._absent_since, self._warned = True, clock.now(), False
        return True

    def has_ended(self) -> bool:
        """Return whether training has ended by itself, and the last checkpoint is there.

        Raises:
            PeerLostError: Nobody has trained for a long time, and training has not ended.
        """
        if self.is_on():
            return False
        newest = self._newest()
        # A date counts only for what was there at first: the clock may have been set since.
        self.seen = self.seen or newest != self._first or self._is_fresh
        ended = newest is not None and _says_ended(newest)
        absent = clock.now() - self._absent_since
        if ended:
            limit = _SETTLE_SECS if self.seen else _GO_ON_SECS
        else:
            limit = _GO_ON_SECS if self.seen else _BEGIN_SECS
        if absent > limit:
            if ended:
                return True
            raise PeerLostError(
                f"Nobody has trained in {self._model_dir} for {absent:.0f} s, and "
                "training had not ended: the evaluator does not wait any longer. Start the job again, and "
                "it goes on from the last checkpoint."
            )
        if not self._warned:
            self._warned = True
            _log.info("Nobody trains in %s now. Waiting %.0f s for it.", self._model_dir, limit - absent)
        return False

    def _newest(self) -> CheckpointInfo | None:
        with suppress(CheckpointError):
            return next(reversed(list_checkpoints(self._model_dir)), None)
        return None


def _is_since(checkpoint: CheckpointInfo, began: float) -> bool:
    """Return whether a checkpoint was written since a time; not if its date is that of another clock."""
    what = f"The checkpoint {checkpoint.path}"
    return checkpoint.time >= began and not is_ahead(checkpoint.time, clock.date(), what)


def _says_ended(checkpoint: CheckpointInfo) -> bool:
    with suppress(CheckpointError):
        return bool(read_metadata(checkpoint.path).get("ended"))
    return False
