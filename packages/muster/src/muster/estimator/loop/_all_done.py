"""Log that all steps are done already, with the metrics of the last evaluation."""

import logging
import os
from pathlib import Path

from muster._errors import SummaryError
from muster.estimator.loop._progress_bar import metrics_line
from muster.summary import read_event_file

_log = logging.getLogger(__name__)


def log_all_done(max_steps: int, step: int, model_dir: str, *, is_chief: bool) -> None:
    """Log that there is nothing to train: for the user, or if this is not the chief, for the record.

    Args:
        max_steps: The step to stop at.
        step: The step of the newest checkpoint.
        model_dir: Where that is.
        is_chief: Whether this is the chief.
    """
    _log.log(
        logging.WARNING if is_chief else logging.INFO,
        "All %d steps are done already: step %d is saved in %s. To train on, give a larger max_steps; to "
        "train anew, another model_dir.",
        max_steps,
        step,
        model_dir,
    )


def log_last_evaluation(folder: str | os.PathLike[str]) -> None:
    """Log the metrics of the last evaluation, if there was one; they are read, and nothing is computed.

    Args:
        folder: Where evaluations write their event files.
    """
    found = read_last_evaluation(folder)
    if found is not None:
        step, metrics = found
        _log.warning("The last evaluation, of step %d: %s", step, metrics_line(metrics))


def read_last_evaluation(folder: str | os.PathLike[str]) -> tuple[int, dict[str, float]] | None:
    """Return the step and the metrics of the last evaluation; None if there is none that can be read."""
    for path in sorted(Path(folder).glob("*tfevents*"), reverse=True):
        step, metrics = 0, dict[str, float]()
        try:
            for events in read_event_file(str(path)):
                scalars = {event.tag: event.value for event in events if isinstance(event.value, float)}
                if scalars:
                    step, metrics = events[0].step, scalars
        except SummaryError as exc:
            _log.info("%s", exc)
        if metrics:
            return step, metrics
    return None
