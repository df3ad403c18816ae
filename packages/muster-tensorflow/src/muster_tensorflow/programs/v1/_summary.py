"""``tf.summary``: in a model_fn summaries of the step, which the Estimator writes; elsewhere a writer's.

Source: tensorflow/python/summary/summary.py, and tensorflow/python/summary/writer/.
"""

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np

from muster import keras, program, summary
from muster.extend import ProgramScope, current_scope, local_path, read_record, session_of_loop
from muster.summary import EventFileWriter, SessionLog
from muster_tensorflow.library.ops._arrays import ArrayLike
from muster_tensorflow.library.ops._value_names import path_of

Merged: TypeAlias = dict[str, program.Output]
"""Summaries of a step by tag."""

Summary: Any = summary.summary_class()
"""The message of summaries, which `FileWriter.add_summary` takes."""
HistogramProto: Any = summary.histogram_class()
"""The message of a histogram in a summary."""


def scalar(
    name: str,
    data: ArrayLike | None = None,
    step: Any = None,
    description: str | None = None,
    *,
    tensor: ArrayLike | None = None,
    **unused: object,
) -> Any:
    """Write a number: in a model_fn as a summary of the step, else to the default writer.

    Args:
        name: The name of the curve.
        data: An array of one element.
        step: The step; in a model_fn without a default writer only None, which is the global step.
        description: Unused.
        tensor: TensorFlow 1's name for ``data``.
        **unused: Arguments such as ``collections`` and ``family``.

    Returns:
        In a model_fn its `Output`, else whether it was written.

    Raises:
        TypeError: Not exactly one of ``data`` and ``tensor`` is there.
        ValueError: There is more than one element, or outside of a model_fn no step.
    """
    value = _one_of(name, data, tensor)
    if _of_step(step):
        return program.summary_scalar(name, value)
    return summary.scalar(name, value, step, description)


def histogram(
    name: str,
    data: ArrayLike | None = None,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
    *,
    values: ArrayLike | None = None,
    **unused: object,
) -> Any:
    """Write how values are distributed; see `scalar`.

    Args:
        name: The name of the histogram.
        data: An array of any shape.
        step: As for `scalar`.
        buckets: In how many ranges of equal width to count; None is 30.
        description: A text about it.
        values: TensorFlow 1's name for ``data``.
        **unused: Arguments such as ``collections`` and ``family``.
    """
    value = _one_of(name, data, values)
    if _of_step(step):
        return program.summary_histogram(name, value, 30 if buckets is None else buckets)
    return summary.histogram(name, value, step, buckets, description)


def image(
    name: str,
    data: ArrayLike | None = None,
    step: Any = None,
    max_outputs: int = 3,
    description: str | None = None,
    *,
    tensor: ArrayLike | None = None,
    **unused: object,
) -> Any:
    """Write the first images of a batch; see `scalar`.

    Floating-point numbers are from 0 to 1, as in TensorFlow 2; TensorFlow 1 stretches their range.

    Args:
        name: The name of the images.
        data: Shape (batch, height, width, channels).
        step: As for `scalar`.
        max_outputs: How many images at most.
        description: A text about them.
        tensor: TensorFlow 1's name for ``data``.
        **unused: Arguments such as ``collections`` and ``family``.
    """
    value = _one_of(name, data, tensor)
    if _of_step(step):
        return program.summary_image(name, value, max_outputs)
    return summary.image(name, value, step, max_outputs, description)


def text(
    name: str,
    data: Any = None,
    step: Any = None,
    description: str | None = None,
    *,
    tensor: Any = None,
    **unused: object,
) -> Any:
    """Write a text; see `scalar`. In a model_fn it is known when the step is traced.

    Args:
        name: The name of the text.
        data: A text, or an array of texts.
        step: As for `scalar`.
        description: A text about it.
        tensor: TensorFlow 1's name for ``data``.
        **unused: Arguments such as ``collections``.
    """
    value = _one_of(name, data, tensor)
    if _of_step(step):
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in np.ravel(value)]
        return program.summary_text(name, "\n\n".join(texts))
    return summary.text(name, value, step, description)


def record_summaries_every_n_global_steps(
    n: int, global_step: Any = None
) -> contextlib.AbstractContextManager[None]:
    """Record summaries of a writer only in each n-th step; of a step that is None, in each one.

    Args:
        n: The number of steps.
        global_step: The step; None is the default step of summaries.

    Source: tensorflow/contrib/summary/summary_ops.py, ``record_summaries_every_n_global_steps``.
    """

    def due() -> Any:
        step = summary.get_step() if global_step is None else global_step
        return True if step is None else getattr(step, "value", step) % n == 0

    return summary.record_if(due)


def merge(inputs: Sequence[Any], collections: None = None, name: str | None = None) -> Merged:
    """Return several summaries of a step as one, for a SummarySaverHook; the Estimator writes all anyway.

    Args:
        inputs: What `scalar` and the others return, and what this does.
        collections: Unused.
        name: Unused.
    """
    merged: Merged = {}
    for each in inputs:
        merged.update(each if isinstance(each, Mapping) else {each.name: each})
    return merged


def merge_all(key: str | None = None, scope: str | None = None, name: str | None = None) -> Merged | None:
    """Return all summaries of the step so far, for a SummarySaverHook; None if there are none.

    In a hook, they are those of the model_fn, for ``SessionRunArgs``.

    Args:
        key: Unused.
        scope: Unused.
        name: Unused.

    Raises:
        TraceError: No step is being traced, and no hook is called.
    """
    if current_scope() is None and (session := session_of_loop()) is not None:
        return dict(session.summaries) or None
    return program.step_summaries() or None


class FileWriter:
    """Writes summaries and status of a training to an event file, as TensorFlow 1 does.

    Args:
        logdir: The folder of the file.
        graph: Unused: there are no graphs.
        max_queue: Unused.
        flush_secs: The longest time in seconds between two writes to the disk.
        graph_def: Unused.
        filename_suffix: The end of the file's name.
        session: Unused.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: object = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: object = None,
        filename_suffix: str | None = None,
        session: object = None,
    ) -> None:
        self._logdir = local_path(logdir)
        self._options = {"filename_suffix": filename_suffix or "", "flush_secs": flush_secs}
        self._open()

    def _open(self) -> None:
        self._writer = summary.SummaryWriter(EventFileWriter(self._logdir, **self._options))  # type: ignore[arg-type]

    @property
    def _events(self) -> EventFileWriter:
        events = self._writer.events
        if events is None:
            raise ValueError("This writer has no file.")
        return events

    def get_logdir(self) -> str:
        """Return the folder of the file."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Write a summary.

        Args:
            summary: A `Summary` message, its bytes, or what a run of `merge_all` returns: tag -> value, where
                one number is a scalar, and an array a histogram.
            global_step: The step; None is 0.
        """
        step = int(global_step or 0)
        if not isinstance(summary, Mapping):
            data = summary if isinstance(summary, bytes) else summary.SerializeToString()
            return self._events.add_summary(data, step)
        for tag, value in summary.items():
            if np.size(value) == 1:
                self._events.add_scalar(tag, float(np.reshape(value, ())), step)
            else:
                self._events.add_histogram(tag, value, step)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Write a change of the session: what has ``status``, and may have ``checkpoint_path``."""
        path = str(getattr(session_log, "checkpoint_path", ""))
        self._events.add_session_log(SessionLog(session_log.status), int(global_step or 0), path)

    def add_graph(self, graph: object, global_step: int | None = None, graph_def: object = None) -> None:
        """Do nothing: there are no graphs."""

    def add_meta_graph(self, meta_graph_def: object, global_step: int | None = None) -> None:
        """Do nothing: there are no graphs."""

    def add_run_metadata(self, run_metadata: object, tag: str, global_step: int | None = None) -> None:
        """Do nothing: ``ProfilerHook`` profiles steps."""

    def flush(self) -> None:
        """Write all summaries to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Flush, and refuse summaries from now on."""
        self._writer.close()

    def reopen(self) -> None:
        """Go on in a new file."""
        self.close()
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FileWriterCache:
    """The writers of a process, one a folder."""

    _lock = threading.RLock()
    _cache: dict[str, FileWriter] = {}

    @staticmethod
    def get(logdir: str | os.PathLike[str]) -> FileWriter:
        """Return the writer of a folder, and make it the first time."""
        with FileWriterCache._lock:
            folder = local_path(logdir)
            if folder not in FileWriterCache._cache:
                FileWriterCache._cache[folder] = FileWriter(folder)
            return FileWriterCache._cache[folder]

    @staticmethod
    def clear() -> None:
        """Close all writers, and forget them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()


def summary_iterator(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the events of an event file as messages, which have ``step``, ``wall_time`` and ``summary``."""
    with open(local_path(path), "rb") as file:
        while (record := read_record(file)) is not None:
            yield summary.parse_message(record)


def of_contrib(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of ``tf.contrib.summary``: in a model_fn its ``step`` is always the global step.

    Source: tensorflow/python/ops/summary_ops_v2.py, ``scalar`` and its like.
    """

    @functools.wraps(write)
    def call(
        name: str, tensor: ArrayLike, family: str | None = None, step: Any = None, **options: Any
    ) -> Any:
        in_step = isinstance(current_scope(), ProgramScope) and summary.default_writer() is None
        full = name if family is None else f"{family}/{name}"
        return write(full, tensor, step=None if in_step else step, **options)

    return call


def of_graphs(write: Callable[..., Any], *order: str) -> Callable[..., Any]:
    """Return a function of ``tf.compat.v1.summary``: its tags have the scopes around, and each is another.

    Args:
        write: The function.
        *order: The arguments after the name.

    Source: tensorflow/python/ops/summary_op_util.py, ``summary_scope``.
    """

    @functools.wraps(write)
    def call(name: str, *args: Any, **options: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"The summary {name!r} takes {', '.join(order)} after its name.")
        given = {**dict(zip(order, args, strict=False)), **options}
        family = given.get("family")
        tag = _cleaned(name) if family is None else f"{_cleaned(family)}/{_cleaned(name)}"
        if isinstance(current_scope(), ProgramScope):
            tag = path_of(tag) or tag
            taken, free, number = program.step_summaries(), tag, 0
            while _with_family(free, family) in taken:
                number += 1
                free = f"{tag}_{number}"
            tag = free
        return write(_with_family(tag, family), **given)

    return call


def _with_family(tag: str, family: str | None) -> str:
    return tag if family is None else f"{_cleaned(family)}/{tag}"


def _cleaned(name: str) -> str:
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def _one_of(name: str, data: Any, other: Any) -> Any:
    if (data is None) == (other is None):
        raise TypeError(f"The summary {name!r} needs one value: give either data or tensor.")
    value = other if data is None else data
    return value.result() if isinstance(value, keras.Metric) else value


def _of_step(step: Any) -> bool:
    """Return whether a summary is one of the step that a model_fn describes, rather than of a writer.

    One that says its step is of the default writer, and as in TensorFlow nothing without one.
    """
    return step is None and isinstance(current_scope(), ProgramScope)
