"""Writing down what came of an evaluation."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.summary import EventFileWriter

_log = logging.getLogger(__name__)


def format_metrics(metrics: Mapping[str, Any]) -> str:
    """The metrics in a line, by name."""
    return ", ".join(f"{name} = {metrics[name]!s}" for name in sorted(metrics))


def write_metrics(writer: EventFileWriter, metrics: Mapping[str, Any], checkpoint_path: str | None) -> None:
    """Write the numbers among the metrics as summaries, and which checkpoint they are of.

    Args:
        writer: Where to; it is flushed.
        metrics: Name -> number or array, with ``global_step``.
        checkpoint_path: The checkpoint; None if initial values were evaluated.

    Source: ``_write_dict_to_summary`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    step = int(metrics["global_step"])
    numbers = {}
    for name, value in metrics.items():
        if name == "global_step":
            continue
        if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
            numbers[name] = float(value)
        else:
            _log.warning("The metric %r has the shape %s: no summary of it.", name, np.shape(value))
    writer.add_scalars(numbers, step)
    if checkpoint_path is not None:
        _log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint_path)
        writer.add_text("checkpoint_path", checkpoint_path, step)
    writer.flush()
