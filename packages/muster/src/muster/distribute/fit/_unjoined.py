"""Warn a task that trains alone because its program creates no strategy, and name the line to add."""

import functools
import logging
import os

from muster._errors import ClusterError
from muster.cluster import Task, TaskType, TFConfig
from muster.cluster.roster import training_tasks
from muster.distribute.strategies._strategy import Strategy

_log = logging.getLogger(__name__)


def warn_if_unjoined(strategy: Strategy | None) -> None:
    """Log a warning, once, if this task trains a model of its own, while the other tasks of its job do, too.

    Args:
        strategy: What the model is trained by; None for no strategy.
    """
    if strategy is not None and (strategy.workers.size > 1 or strategy.storage is not None):
        return
    try:
        config = TFConfig.from_environ(os.environ)
    except ClusterError:
        return  # whoever reads it for a strategy is told
    tasks = training_tasks(config.cluster)
    if len(tasks) < 2 or config.task_type in (None, TaskType.PS, TaskType.EVALUATOR):
        return
    name = "MultiWorkerMirroredStrategy"
    if TaskType.PS in config.cluster.jobs:
        name = "ParameterServerStrategy"
    how = "without a strategy" if strategy is None else f"by {strategy}, which is for one process"
    _warn(config.task, len(tasks), how, name)


@functools.cache  # a program may fit often
def _warn(task: Task, count: int, how: str, name: str) -> None:
    _log.warning(
        "%s trains a model of its own: TF_CONFIG names %d tasks that train, and this one fits %s. To train "
        "one model together, begin the program with strategy = muster.distribute.%s(), and build and compile "
        "the model inside of `with strategy.scope():`. To train in one process, unset TF_CONFIG.",
        task,
        count,
        how,
        name,
    )
