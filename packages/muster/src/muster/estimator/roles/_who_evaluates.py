"""Who evaluates a job's checkpoints: one task at a time."""

import contextlib
import enum
import logging
import os
from collections.abc import Callable, Iterator

from muster._errors import DirectoryInUseError
from muster.checkpoint import Lease, WriterWatch
from muster.cluster import TaskType
from muster.estimator._run_config import RunConfig
from muster.summary import read_events

_log = logging.getLogger(__name__)

# The file that an evaluator locks in the folder of its summaries, for as long as it is there.
_EVALUATOR = "evaluator.lock"
# How often an evaluator looks whether the chief's evaluation is done, in seconds.
_LOOK_SECS = 0.2


class Evaluates(enum.Enum):
    """Whether a task evaluates checkpoints."""

    NEVER = enum.auto()
    ALWAYS = enum.auto()
    UNLESS_EVALUATOR = enum.auto()  # as long as no evaluator has come, of which the cluster says nothing


def evaluates(config: RunConfig, *, in_step: bool) -> Evaluates:
    """Return whether a task evaluates.

    An evaluator need not stand in the cluster: TensorFlow wants it outside, and Kubeflow's operator puts it
    there. So where a cluster has none, the chief of workers in step evaluates until one comes.

    Args:
        config: Says which task this is, and which others there are.
        in_step: Whether workers train in step, and not beside parameter servers.
    """
    cluster, task_type = config.cluster_spec, config.task_type
    if task_type == TaskType.EVALUATOR:
        return Evaluates.ALWAYS
    if not cluster or task_type == TaskType.MASTER:
        return Evaluates.ALWAYS
    if not in_step or not config.is_chief or TaskType.EVALUATOR in cluster.jobs:
        return Evaluates.NEVER
    return Evaluates.UNLESS_EVALUATOR


@contextlib.contextmanager
def as_evaluator(folder: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Be the one that evaluates into a folder, in a ``with`` block.

    The chief is told at once, and an evaluation of its that runs is waited for.

    Args:
        folder: The folder of the evaluation's summaries; made if it is missing.
        pause: Waits for some seconds; may raise.

    Raises:
        DirectoryInUseError: There is another evaluator.
    """
    os.makedirs(folder, exist_ok=True)
    with contextlib.closing(Lease(folder, _EVALUATOR)):
        watch = WriterWatch(folder)
        while watch.is_writing():
            pause(_LOOK_SECS)
        with contextlib.closing(Lease(folder)):
            yield


class UntilEvaluator:
    """The chief's right to evaluate: until an evaluator comes.

    Args:
        folder: The folder of the evaluation's summaries.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._watch = WriterWatch(folder, _EVALUATOR)
        self._is_left = False

    def announce(self) -> None:
        """Log who evaluates."""
        if not self._has_evaluator():
            _log.info("There is no evaluator task: the chief evaluates checkpoints, while the others wait.")

    @contextlib.contextmanager
    def taken(self, step: int, *, is_last: bool) -> Iterator[bool]:
        """Yield whether to evaluate now; then no evaluator does so in the ``with`` block.

        Args:
            step: The step to evaluate.
            is_last: Whether training has ended. An evaluator that was there may be done and gone by then.
        """
        os.makedirs(self._folder, exist_ok=True)
        if self._has_evaluator() or (is_last and self._is_left and self._was_evaluated(step)):
            yield False
            return
        if self._is_left and not is_last:
            yield False  # it may come again
            return
        try:
            lease = Lease(self._folder)
        except DirectoryInUseError:  # an evaluator has just come
            self._leave()
            yield False
            return
        with contextlib.closing(lease):
            yield True

    def _has_evaluator(self) -> bool:
        if not self._watch.is_writing():
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        if not self._is_left:
            self._is_left = True
            _log.info("The evaluator task evaluates the checkpoints of this job.")

    def _was_evaluated(self, step: int) -> bool:
        """Return whether the evaluator, which has gone, has evaluated a step."""
        return any(each.step == step for each in read_events(self._folder))
