"""Write scalars, histograms, images and text to the default writer, as `tf.summary` does.

In a step that is traced, values are written each time that the compiled step runs.
"""

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from muster._paths import local_path
from muster.summary._event_files import EventFileWriter
from muster.summary._hparams import HParam, Metric
from muster.summary._writer import (
    SummaryWriter,
    default_writer,
    get_step,
    replica_number,
    should_record_summaries,
)

_log = logging.getLogger(__name__)
_told: set[str] = set()

_Write: TypeAlias = Callable[[EventFileWriter, Any, int], None]


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Write a number to the default writer.

    Args:
        name: The name of its curve.
        data: A number, or an array or variable of one element.
        step: The step, a number >= 0 or a variable; None takes that of `set_step`.
        description: Accepted for TensorFlow's programs.

    Returns:
        Whether it was written, or is written by the compiled step: False without a default writer, or if
        `record_if` says so.

    Raises:
        ValueError: There is no step, or more than one element.

    Source: tensorboard/plugins/scalar/summary_v2.py, ``scalar``.

    Example:
        ```python
        with muster.summary.create_file_writer("runs/scalars").as_default():
            for step in range(3):
                muster.summary.scalar("loss", 1 / (step + 1), step=step)
        ```
    """

    def write(events: EventFileWriter, value: Any, at: int) -> None:
        events.add_scalar(name, _number(name, value), at)

    return _write(name, data, step, write)


def histogram(
    name: str, data: Any, step: Any = None, buckets: int | None = None, description: str | None = None
) -> bool:
    """Write how values are distributed to the default writer.

    Args:
        name: The name of the histogram.
        data: An array or variable of any shape; NaN and infinities do not count.
        step: As for `scalar`.
        buckets: In how many ranges of equal width to count; None is 30.
        description: A text about it, in Markdown.

    Returns:
        As for `scalar`.

    Raises:
        ValueError: There is no step, or less than 0 buckets.

    Source: tensorboard/plugins/histogram/summary_v2.py, ``histogram``.
    """
    count = 30 if buckets is None else int(buckets)

    def write(events: EventFileWriter, values: Any, at: int) -> None:
        events.add_histogram(name, values, at, buckets=count, description=description or "")

    return _write(name, data, step, write)


def image(
    name: str, data: Any, step: Any = None, max_outputs: int = 3, description: str | None = None
) -> bool:
    """Write the first images of a batch to the default writer.

    Args:
        name: The name of the images.
        data: Shape (batch, height, width, channels) with 1 to 4 channels; uint8, or floating-point numbers
            from 0 to 1, others of which are clipped.
        step: As for `scalar`.
        max_outputs: How many images at most.
        description: A text about them, in Markdown.

    Returns:
        As for `scalar`.

    Raises:
        ValueError: There is no step, or the images have another shape.

    Source: tensorboard/plugins/image/summary_v2.py, ``image``.
    """

    def write(events: EventFileWriter, values: Any, at: int) -> None:
        events.add_image(name, values, at, max_outputs=int(max_outputs), description=description or "")

    return _write(name, data, step, write)


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Write a text, or several, to the default writer.

    Args:
        name: The name of the text.
        data: A text in Markdown, or a list or array of texts.
        step: As for `scalar`.
        description: A text about it, in Markdown.

    Returns:
        As for `scalar`.

    Raises:
        ValueError: There is no step.

    Source: tensorboard/plugins/text/summary_v2.py, ``text``.
    """

    def write(events: EventFileWriter, value: Any, at: int) -> None:
        events.add_text(name, _texts(value), at, description=description or "")

    return _write(name, data, step, write)


def hparams(
    hparams: Mapping[Any, Any], trial_id: str | None = None, start_time_secs: float | None = None
) -> bool:
    """Write the hyperparameters of the run whose summaries go to the default writer.

    Args:
        hparams: Name or `HParam` -> a number, a truth value or a text.
        trial_id: The name of all runs with these values; None takes a hash of them.
        start_time_secs: When the run started, in seconds since the epoch; None for now.

    Returns:
        As for `scalar`.

    Raises:
        TypeError: A value is something else.
        ValueError: Two keys have the same name.

    Source: tensorboard/plugins/hparams/summary_v2.py, ``hparams``.
    """
    return _written_now(
        lambda events: events.add_hparams(hparams, trial_id=trial_id, start_time_secs=start_time_secs)
    )


def hparams_config(
    hparams: Sequence[HParam], metrics: Sequence[Metric], time_created_secs: float | None = None
) -> bool:
    """Write which hyperparameters and metrics runs are compared by, to the default writer.

    Args:
        hparams: The hyperparameters.
        metrics: The scalar summaries of the runs.
        time_created_secs: When the experiment began, in seconds since the epoch; None for now.

    Returns:
        As for `scalar`.

    Source: tensorboard/plugins/hparams/summary_v2.py, ``hparams_config``.
    """
    return _written_now(
        lambda events: events.add_hparams_config(hparams, metrics, time_created_secs=time_created_secs)
    )


def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> bool:
    """Write a serialized ``Summary`` message to the default writer. ``name`` is unused.

    Args:
        tensor: The bytes.
        step: As for `scalar`.

    Returns:
        As for `scalar`.

    Raises:
        ValueError: There is no step.
        SummaryError: The bytes are no such message.
    """
    return _write("write_raw_pb", tensor, step, lambda events, data, at: events.add_summary(bytes(data), at))


@contextlib.contextmanager
def summary_scope(name: str, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """Yield the tag of a summary, its name, and the scope of its values, for TensorFlow's interface."""
    tag = name or default_name
    yield tag, f"{tag}/"


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: str | None = None) -> None:
    """Start a profile; there are no graphs to trace.

    Args:
        graph: Unused: a step has no graph. ``keras.callbacks.TensorBoard`` writes the layers of models.
        profiler: Whether to profile what runs until `trace_off` or `trace_export`, by ``jax.profiler``.
        profiler_outdir: The folder of the profile, which TensorBoard's Profile tab shows; None lets
            `trace_export` say it.

    Source: tensorflow/python/ops/summary_ops_v2.py, ``trace_on``.
    """
    if graph:
        _tell_once(
            "trace_on: a step has no graph to write. keras.callbacks.TensorBoard writes a model's layers."
        )
    if not _tracing:
        place = local_path(profiler_outdir) if profiler_outdir else None
        folder = place or tempfile.mkdtemp(prefix="muster-profile-") if profiler else None
        _tracing.append(_Tracing(folder=folder, is_temporary=profiler_outdir is None))
        if folder is not None:
            import jax

            jax.profiler.start_trace(folder)


def trace_export(name: str, step: Any = None, profiler_outdir: str | None = None) -> None:
    """Stop the profile of `trace_on`, if there is one, and write it.

    Args:
        name: Unused, as the next: a profile has the name of its time.
        step: Unused.
        profiler_outdir: The folder of the profile; None is that of `trace_on`.

    Raises:
        ValueError: `trace_on` was not called, or nobody says where a profile is to be.

    Source: tensorflow/python/ops/summary_ops_v2.py, ``trace_export``.
    """
    if not _tracing:
        raise ValueError("Must enable trace before export through tf.summary.trace_on.")
    folder, is_temporary = _tracing[0].folder, _tracing[0].is_temporary
    if folder is None or not is_temporary:
        trace_off()
    elif profiler_outdir is None:
        raise ValueError("Argument `profiler_outdir` is not specified.")
    else:
        import jax

        place = local_path(profiler_outdir)
        jax.profiler.stop_trace()
        shutil.copytree(folder, place, dirs_exist_ok=True)
        _tracing.clear()
        shutil.rmtree(folder)


def trace_off() -> None:
    """Stop what `trace_on` has started: the profile is written if it has said where, else it is lost."""
    for each in _tracing:
        if each.folder is not None:
            import jax

            jax.profiler.stop_trace()
            if each.is_temporary:
                shutil.rmtree(each.folder)
    _tracing.clear()


@dataclass(frozen=True, kw_only=True)
class _Tracing:
    """The tracing that `trace_on` has started.

    Attributes:
        folder: Where the profile is written; None if there is none.
        is_temporary: Whether `trace_export` has to say where it belongs.
    """

    folder: str | None
    is_temporary: bool


_tracing: list[_Tracing] = []


def _tell_once(line: str) -> None:
    if line not in _told:
        _told.add(line)
        _log.info("%s", line)


def _write(name: str, data: Any, step: Any, write: _Write) -> bool:
    """Write a value now, or in each run of the step that is being traced."""
    writer, condition = default_writer(), should_record_summaries()
    if writer is None or writer.events is None or condition is False:
        return False
    at = _value(get_step() if step is None else step)
    if at is None:
        raise ValueError(
            f"The summary {name!r} has no step. Give step=…, or set one by muster.summary.set_step."
        )
    value, condition, replica = _value(data), _value(condition), replica_number()
    jax = sys.modules.get("jax")  # what traces has imported it
    if jax is None or not any(isinstance(x, jax.core.Tracer) for x in (at, value, condition, replica)):
        return _written(writer, write, value, at, condition, replica)
    writer.await_steps()
    if isinstance(value, jax.core.Tracer):
        jax.debug.callback(lambda *args: _wrote(writer, write, *args), value, at, condition, replica)
    else:  # a text, or numbers that NumPy holds
        jax.debug.callback(lambda *args: _wrote(writer, write, value, *args), at, condition, replica)
    return True


def _wrote(writer: SummaryWriter, write: _Write, *args: Any) -> None:
    _written(writer, write, *args)


def _written(writer: SummaryWriter, write: _Write, value: Any, at: Any, condition: Any, replica: Any) -> bool:
    if writer.events is None or not bool(condition) or int(replica) != 0:
        return False
    write(writer.events, value, int(at))
    return True


def _written_now(write: Callable[[EventFileWriter], None]) -> bool:
    writer = default_writer()
    if writer is None or writer.events is None or not should_record_summaries():
        return False
    write(writer.events)
    return True


def _value(data: Any) -> Any:
    """Return the value of a variable of Keras, which is not imported here; other values as they are."""
    return getattr(data, "value", data)


def _number(name: str, value: Any) -> float:
    import numpy as np

    array = np.asarray(value)
    if array.size != 1:
        raise ValueError(f"The summary {name!r} must be one number, got the shape {array.shape}.")
    return float(array.reshape(()))


def _texts(value: Any) -> str | list[str]:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | os.PathLike):
        return str(value)
    import numpy as np

    array = np.asarray(value)
    texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1)]
    return texts if array.ndim else texts[0]
