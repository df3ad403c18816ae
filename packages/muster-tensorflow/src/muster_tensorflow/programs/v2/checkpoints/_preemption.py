"""``tf.distribute.experimental.PreemptionCheckpointHandler``: checkpoint before a machine is preempted."""

import contextlib
import dataclasses
import enum
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.checkpoint import forget_notes, note_training
from muster.cluster import ClusterResolver
from muster.distribute import get_strategy, has_strategy
from muster.extend import TaskState
from muster_tensorflow.programs.v2.checkpoints._checkpoint import Checkpoint
from muster_tensorflow.programs.v2.checkpoints._checkpoint_manager import CheckpointManager

_log = logging.getLogger(__name__)

# How often to ask a termination_watcher_fn, in seconds.
_LOOK_SECS = 1.0
# How long a worker trains on after a notice where the others go on without it: they may get one, too.
_ALONE_SECS = 1.0
# How many times as long as a run and as the last save the final ones may take.
_SLACK = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TerminationConfig:
    """The preemption notice and the reaction of a `PreemptionCheckpointHandler`.

    Attributes:
        termination_watcher_fn: Called every second in a thread; returns whether there is a notice. None takes
            SIGTERM for the notice.
        exit_fn: Called when the last checkpoint is saved; None exits with 143, as SIGTERM does. Training goes
            on if it returns.
        grace_period: How long there is from the notice to the end, in seconds: training goes on after a first
            checkpoint, and saves another one in time. 0 exits after the first.
        save_fn: Called in place of ``CheckpointManager.save``; None calls that.

    Source: tensorflow/python/distribute/failure_handling/failure_handling.py, ``TerminationConfig``, whose
    defaults for Google's machines are not here.
    """

    termination_watcher_fn: Callable[[], bool] | None = None
    exit_fn: Callable[[], object] | None = None
    grace_period: float | None = None
    save_fn: Callable[..., object] | None = None


class Word(enum.IntEnum):
    """A worker's message to the others before a step."""

    NOTHING = 0
    NOTED = 1  # it has a notice, and a checkpoint was saved since
    NOTICE = 2
    LAST_CALL = 3


class Plan(enum.Enum):
    """The action of all workers before a step, or of one."""

    GO_ON = enum.auto()
    SAVE = enum.auto()
    SAVE_AND_EXIT = enum.auto()
    LEAVE = enum.auto()


class Preemption:
    """Decides what workers do when one of them has a notice; pure.

    Args:
        grace_secs: How long there is from a notice to the end, in seconds.
        leaves_alone: Whether the others go on without a worker that leaves.

    Attributes:
        has_saved: Whether a checkpoint was saved since this worker's notice.
    """

    def __init__(self, grace_secs: float, *, leaves_alone: bool = False) -> None:
        self._grace_secs = grace_secs
        self._leaves_alone = leaves_alone
        self.has_saved = False

    def word(self, noticed: float | None, needed_secs: float, now: float) -> Word:
        """Return what this worker says.

        Args:
            noticed: When it got its notice, in seconds; None for never.
            needed_secs: How long the last steps and the last save may take.
            now: The time in seconds.
        """
        if noticed is None:
            return Word.NOTHING
        if self._leaves_alone and not self.has_saved:
            return Word.NOTICE
        until = noticed + self._grace_secs - needed_secs
        if self._leaves_alone:
            until = max(until, noticed + _ALONE_SECS)
        if now >= until:
            return Word.LAST_CALL
        return Word.NOTED if self.has_saved else Word.NOTICE

    def plan(self, words: Sequence[int], rank: int) -> Plan:
        """Return what this worker does; all do the same, but for one that leaves.

        Args:
            words: What each has said, by rank.
            rank: That of this worker.
        """
        word = max(words)
        if self._leaves_alone and min(words) == Word.NOTHING:
            if words[rank] == Word.LAST_CALL:
                return Plan.LEAVE
        elif word == Word.LAST_CALL or (self._leaves_alone and not self._grace_secs):
            return Plan.SAVE_AND_EXIT
        return Plan.SAVE if Word.NOTICE in words else Plan.GO_ON


class _Notice:
    """The time of a preemption notice."""

    def __init__(self) -> None:
        self.time: float | None = None

    def give(self, *signal_and_frame: object) -> None:
        if self.time is None:
            self.time = time.monotonic()
            _log.warning("This process is about to be ended: a checkpoint is saved before the next step.")


class PreemptionCheckpointHandler:
    """Saves when the machine of any worker is about to be taken away, and goes on from there after a restart.

    Restores the newest checkpoint when it is made. Before every run of a step all workers tell each other
    whether one of them has a notice, which is SIGTERM unless the configuration names another. If one has,
    they all save at that step, and exit.

    Args:
        cluster_resolver: The strategy's, or None.
        checkpoint_or_checkpoint_manager: A ``tf.train.Checkpoint``, which the chief saves; or a
            CheckpointManager, by which each worker saves, so that it needs a directory of its own.
        checkpoint_dir: The directory for a Checkpoint, which all workers see.
        termination_config: What differs from the defaults.

    Raises:
        ValueError: A checkpoint is given without a directory.
        TypeError: Something else than a Checkpoint or a CheckpointManager is given.
        NotImplementedError: The job has parameter servers: those do without a worker that is gone.

    Source: tensorflow/python/distribute/failure_handling/failure_handling.py,
    ``PreemptionCheckpointHandler``. There, a worker tells the others by a coordination service, and all
    save one step later.
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None,
        checkpoint_or_checkpoint_manager: Checkpoint | CheckpointManager,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        config = termination_config or TerminationConfig()
        if cluster_resolver is not None and "ps" in cluster_resolver.cluster_spec().jobs:
            raise NotImplementedError(
                "PreemptionCheckpointHandler is for workers in step. Beside parameter servers the others go "
                "on without a worker: leave it out."
            )
        given = checkpoint_or_checkpoint_manager
        self._all_save = isinstance(given, CheckpointManager)
        if isinstance(given, CheckpointManager):
            self._manager = given
        elif not isinstance(given, Checkpoint):
            raise TypeError(f"Give a tf.train.Checkpoint or a CheckpointManager, got {given!r}.")
        elif not checkpoint_dir:
            raise ValueError("When a checkpoint is passed, a checkpoint_dir must be passed as well.")
        else:
            self._manager = CheckpointManager(given, checkpoint_dir, max_to_keep=1)
        self._config = config
        strategy = get_strategy() if has_strategy() else self._manager.checkpoint.strategy()
        self._workers = strategy.workers
        self._preemption = Preemption(config.grace_period or 0.0, leaves_alone=self._workers.comes_and_goes)
        self._run_secs = self._save_secs = 0.0
        self._manager.restore_or_initialize()
        if not self._workers.has_joined_loop:
            calls = self._workers.all_gather_object(self._manager.checkpoint.run_calls)
            self._manager.checkpoint.run_calls = calls[0]
        self._notice = _Notice()
        watching = contextlib.ExitStack()
        watch = _watched if config.termination_watcher_fn is None else _polled(config.termination_watcher_fn)
        watching.enter_context(watch(self._notice))
        self._stop_watching = weakref.finalize(self, watching.close)
        # Who tells all workers to end tells them one after the other: this one must not die of it at its end.
        self._stop_watching.atexit = False

    @property
    def total_run_calls(self) -> int:
        """The number of calls of `run`, with those before restarts."""
        return self._manager.checkpoint.run_calls

    def run(self, distributed_train_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Save and exit if a worker has a notice; else call a function of one step, and return its result.

        Args:
            distributed_train_function: The function, which all workers call.
            *args: Its arguments.
            **kwargs: Its keyword arguments.
        """
        self._check()
        began = time.monotonic()
        result = distributed_train_function(*args, **kwargs)
        self._run_secs = max(self._run_secs / 2, time.monotonic() - began)
        self._manager.checkpoint.run_calls += 1
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Count a step that was taken; save and exit if a worker has a notice.

        It is called after each step, in place of `run`. In TensorFlow the step before it is not counted yet.

        Args:
            *args: Arguments of ``CheckpointManager.save``, or of ``save_fn``.
            **kwargs: Its keyword arguments.
        """
        self._manager.checkpoint.run_calls += 1
        self._check(*args, **kwargs)

    @contextlib.contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Do nothing: it is for TPUs in TensorFlow."""
        yield

    def _check(self, *args: Any, **kwargs: Any) -> None:
        needed = _SLACK * (self._run_secs + self._save_secs)
        word = self._preemption.word(self._notice.time, needed, time.monotonic())
        words = self._workers.all_gather_object(int(word))
        plan = self._preemption.plan(words, self._workers.rank)
        if plan is Plan.GO_ON:
            return
        if plan is not Plan.LEAVE:
            began = time.monotonic()
            self._save(*args, **kwargs)
            self._save_secs = time.monotonic() - began
        if plan is Plan.SAVE:
            self._preemption.has_saved = self._preemption.has_saved or word is not Word.NOTHING
            _log.info("A checkpoint is saved at run call %d. Training goes on.", self.total_run_calls)
            return
        who = self._workers.rank if plan is Plan.LEAVE else words.index(max(words))
        self._workers.end_early(who, signal.SIGTERM)
        does = "The others go on" if plan is Plan.LEAVE else "A checkpoint is saved"
        _log.info("%s at run call %d. Exiting.", does, self.total_run_calls)
        forget_notes()
        if self._config.exit_fn is not None:
            self._config.exit_fn()
            note_training(self._manager.directory)
            self._stop_watching()
            self._notice.time = None
            return
        raise SystemExit(128 + signal.SIGTERM)

    def _save(self, *args: Any, **kwargs: Any) -> None:
        if self._all_save or self._workers.is_chief:
            with self._workers.reporting(TaskState.SAVING):
                (self._config.save_fn or self._manager.save)(*args, **kwargs)
        self._workers.barrier("preempted")


@contextlib.contextmanager
def _watched(notice: _Notice) -> Iterator[None]:
    """Take SIGTERM for the notice; only the main thread can do that."""
    before = signal.signal(signal.SIGTERM, notice.give)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) == notice.give:
                signal.signal(signal.SIGTERM, before)


def _polled(watcher: Callable[[], bool]) -> Callable[[_Notice], contextlib.AbstractContextManager[None]]:
    """Return what asks a function for the notice, until it has one."""

    @contextlib.contextmanager
    def polled(notice: _Notice) -> Iterator[None]:
        ended = threading.Event()

        def poll() -> None:
            while not ended.wait(_LOOK_SECS):
                if watcher():
                    notice.give()
                    return

        thread = threading.Thread(target=poll, name="muster-notice", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            if thread is not threading.current_thread():  # which garbage may be collected in
                thread.join()

    return polled
