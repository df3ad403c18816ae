"""Writing and reading event files."""

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

from muster._errors import StorageError, SummaryError
from muster._paths import local_path
from muster._records import RecordError, frame, read_record
from muster._remote import fetch, publish, publish_soon, refresh, remote_url
from muster.summary import _hparams
from muster.summary import _messages as messages
from muster.summary._images import encode_images
from muster.summary._messages import Event, SessionLog

_log = logging.getLogger(__name__)

_STAMP = re.compile(r"events\.out\.tfevents\.(\d{10})\.")


def announce(logdir: str) -> None:
    """Open and close TensorBoard's own writer for a folder, if a tracker has put one of its own in its place.

    ``wandb.init(sync_tensorboard=True)`` derives a class from ``EventFileWriter`` that notes the folder, and
    then uploads what is written there, by whomever. It leaves an event file behind that holds no events.

    Args:
        logdir: The folder, which exists.
    """
    module = sys.modules.get("tensorboard.summary.writer.event_file_writer")
    writer = getattr(module, "EventFileWriter", None)
    if writer is not None and writer.__module__ != "tensorboard.summary.writer.event_file_writer":
        writer(logdir).close()


def bucketed(values: Any, buckets: int = 30) -> Any:
    """Count values in buckets of equal width between the least and the greatest of them.

    Args:
        values: An array of any shape. NaN and infinities are left out.
        buckets: How many buckets, >= 0.

    Returns:
        Rows of (left edge, right edge, count), float64, shape (buckets, 3); without values, or with no
        bucket, shape (0, 3). If all values are equal, all edges are that value, and the last row counts.

    Raises:
        ValueError: There are less than 0 buckets.

    Source: tensorboard/plugins/histogram/summary_v2.py, ``histogram``.
    """
    import numpy as np

    if buckets < 0:
        raise ValueError(f"A histogram has 0 buckets or more, not {buckets}.")
    flat = np.asarray(values, np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    if buckets == 0 or not flat.size:
        return np.zeros((0, 3))
    low, high = flat.min(), flat.max()
    if low == high:
        rows = np.tile([low, low, 0.0], (buckets, 1))
        rows[-1, 2] = flat.size
        return rows
    counts, edges = np.histogram(flat, buckets, (low, high))
    return np.stack([edges[:-1], edges[1:], counts.astype(np.float64)], 1)


_MAX_PENDING = 1 << 16  # bytes


class EventFileWriter:
    """Writes one event file into a directory, for TensorBoard.

    A call costs some microseconds, since events are buffered in memory. The buffer is written when an event
    comes ``flush_secs`` or more after the last write, when it exceeds 64 KiB or has more than ``max_queue``
    events, and by ``flush`` and ``close``.
    Only complete records are written, so that a process that is killed leaves a readable file, without the
    events of its buffer. The file is open only while it is written: a writer that is not closed leaks
    nothing. Threads may share a writer.

    Source: tensorflow/python/summary/writer/writer.py, ``FileWriter``. Departs in that there is no thread
    that writes. Training flushes at every checkpoint.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        filename_suffix: str = "",
        flush_secs: float = 10.0,
        max_queue: int | None = None,
    ) -> None:
        """Make the directory if it is missing, and a new file in it.

        Args:
            logdir: The directory of the file.
            filename_suffix: The end of the file's name.
            flush_secs: The longest time in seconds between two writes as long as events come.
            max_queue: How many events wait in memory at most; None sets no limit.

        Raises:
            SummaryError: The file cannot be written.
        """
        logdir = local_path(logdir, remote=True)
        self._flush_secs = flush_secs
        self._max_queue = max_queue
        self._waiting = 0
        self._lock = threading.Lock()
        now = time.time()
        try:
            os.makedirs(logdir, exist_ok=True)
            announce(logdir)
            # TensorBoard reads a directory's files in the order of their names.
            stamp = _next_stamp(logdir, int(now))
            name = f"events.out.tfevents.{stamp:010d}.{os.uname().nodename}.{os.getpid()}"
            self._path = _create(os.path.join(logdir, name), filename_suffix)
        except OSError as exc:
            raise SummaryError(
                f"Summaries cannot be written to {remote_url(logdir)}: {exc.strerror}. "
                "Choose a directory that can be written."
            ) from exc
        self._pending = bytearray(frame(messages.file_version(now)))
        self._flushed = time.monotonic()
        self._closed = False

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write a value as float32; see :meth:`add_scalars`."""
        self.add_scalars({tag: value}, step)

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write values by tag in one event.

        Args:
            values: Numbers, or arrays that hold one number; stored as float32.
            step: The global step, >= 0.

        Raises:
            TypeError: A value is not a number.
            ValueError: A value is not a number, or the step is negative.
            SummaryError: The file cannot be written, or is closed.
        """
        numbers = [(tag, float(value)) for tag, value in values.items()]
        self._add(messages.scalars(time.time(), int(step), numbers))

    def add_text(self, tag: str, text: str | Sequence[str], step: int, *, description: str = "") -> None:
        """Write a text, or a list of texts, in Markdown; raises as :meth:`add_scalars` does."""
        if isinstance(text, str):
            self._add(messages.text(time.time(), int(step), tag, text, description))
            return
        values = [each.encode() for each in text]
        self._add(messages.texts(time.time(), int(step), tag, values, [len(values)], "text", description))

    def add_histogram(
        self, tag: str, values: Any, step: int, *, buckets: int = 30, description: str = ""
    ) -> None:
        """Write how values are distributed.

        Args:
            tag: The name of the histogram.
            values: An array of any shape; NaN and infinities do not count.
            step: The global step, >= 0.
            buckets: How many ranges of equal width to count values in.
            description: A text about it, in Markdown.

        Raises:
            ValueError: There are less than 0 buckets, or the step is negative.
            SummaryError: The file cannot be written, or is closed.
        """
        rows = bucketed(values, buckets)
        self._add(messages.doubles(time.time(), int(step), tag, rows, "histograms", description))

    def add_image(
        self, tag: str, images: Any, step: int, *, max_outputs: int = 3, description: str = ""
    ) -> None:
        """Write the first images of a batch, as PNG files.

        Args:
            tag: The name of the images.
            images: Shape (batch, height, width, channels) with 1 to 4 channels; uint8, or floating-point
                numbers from 0 to 1, others of which are clipped.
            step: The global step, >= 0.
            max_outputs: How many images at most.
            description: A text about them, in Markdown.

        Raises:
            ValueError: The images have another shape, or the step is negative.
            SummaryError: The file cannot be written, or is closed.
        """
        width, height, files = encode_images(images, max_outputs)
        values = [str(width).encode(), str(height).encode(), *files]
        event = messages.texts(time.time(), int(step), tag, values, [len(values)], "images", description)
        self._add(event)

    def add_hparams(
        self, hparams: Mapping[Any, Any], *, trial_id: str | None = None, start_time_secs: float | None = None
    ) -> None:
        """Write the hyperparameters of the run whose summaries are in this directory.

        Args:
            hparams: Name or `HParam` -> a number, a truth value or a text.
            trial_id: The name of all runs with these values; None takes a hash of them.
            start_time_secs: When the run started, in seconds since the epoch; None for now.

        Raises:
            TypeError: A value is something else.
            ValueError: Two keys have the same name.
            SummaryError: The file cannot be written, or is closed.
        """
        now = time.time()
        content = _hparams.started(hparams, trial_id, now if start_time_secs is None else start_time_secs)
        self._add(messages.plugin_content(now, 0, _hparams.SESSION_START_TAG, "hparams", content))

    def add_hparams_config(
        self,
        hparams: Sequence[_hparams.HParam],
        metrics: Sequence[_hparams.Metric],
        *,
        time_created_secs: float | None = None,
    ) -> None:
        """Write which hyperparameters and metrics runs below this directory are compared by.

        Raises:
            SummaryError: The file cannot be written, or is closed.
        """
        now = time.time()
        content = _hparams.experiment(
            hparams, metrics, now if time_created_secs is None else time_created_secs
        )
        self._add(messages.plugin_content(now, 0, _hparams.EXPERIMENT_TAG, "hparams", content))

    def add_hparams_end(self) -> None:
        """Write that the run of :meth:`add_hparams` has ended well; raises as it does."""
        now = time.time()
        content = _hparams.ended(now)
        self._add(messages.plugin_content(now, 0, _hparams.SESSION_END_TAG, "hparams", content))

    def add_keras_model(self, tag: str, config: str, step: int) -> None:
        """Write the layers of a Keras model for TensorBoard's Graphs tab; raises as `add_scalars` does.

        Args:
            tag: The name of the graph.
            config: What ``model.to_json()`` returns.
            step: The global step, >= 0.
        """
        event = messages.texts(
            time.time(), int(step), tag, [config.encode()], (1,), "graph_keras_model", content=b"1"
        )
        self._add(event)

    def add_summary(self, summary: bytes, step: int) -> None:
        """Write a serialized ``Summary`` message, such as TensorFlow's and TensorBoard's functions make.

        Raises:
            SummaryError: The bytes are no such message, or the file cannot be written, or is closed.
        """
        self._add(messages.of_summary(time.time(), int(step), summary))

    def add_session_log(self, status: SessionLog, step: int, path: str = "") -> None:
        """Write that the session started, stopped or saved a checkpoint.

        Args:
            status: The change of the session.
            step: The global step. At START, TensorBoard drops the events of earlier files of this
                directory from this step on.
            path: The path of the checkpoint.

        Raises:
            SummaryError: The file cannot be written, or is closed.
        """
        self._add(messages.session_log(time.time(), int(step), status, path))

    def flush(self) -> None:
        """Hand all events to the operating system, so that readers see them.

        Raises:
            SummaryError: The file cannot be written.
        """
        with self._lock:
            self._write_pending()

    def close(self) -> None:
        """Flush, and refuse events from now on. May be called again.

        Raises:
            SummaryError: The file cannot be written.
        """
        with self._lock:
            self._closed = True
            self._write_pending()
            self._publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, event: bytes) -> None:
        record = frame(event)
        with self._lock:
            if self._closed:
                raise SummaryError(f"{self._path} is closed.")
            self._pending += record
            self._waiting += 1
            if (
                time.monotonic() - self._flushed >= self._flush_secs
                or len(self._pending) >= _MAX_PENDING
                or (self._max_queue is not None and self._waiting > self._max_queue)
            ):
                self._write_pending()

    def _publish(self) -> None:
        try:
            publish(self._path)
        except StorageError as exc:
            raise SummaryError(str(exc)) from exc

    def _write_pending(self) -> None:
        self._flushed = time.monotonic()
        self._waiting = 0
        if not self._pending:
            return
        try:
            with open(self._path, "ab", buffering=0) as file:
                while self._pending:
                    del self._pending[: file.write(self._pending)]
            publish_soon(self._path)
        except OSError as exc:
            raise SummaryError(f"{self._path} cannot be written: {exc.strerror}.") from exc


def read_events(logdir: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the scalars, texts and session logs of a directory's event files, in order.

    A directory that does not exist has no events.

    Raises:
        SummaryError: A file cannot be read.

    Example:
        ```python
        with muster.summary.create_file_writer("runs/read").as_default():
            muster.summary.scalar("loss", 0.5, step=1)
            muster.summary.flush()
        (event,) = muster.summary.read_events("runs/read")
        assert (event.step, event.tag, float(event.value)) == (1, "loss", 0.5)
        ```
    """
    logdir = local_path(logdir, remote=True)
    refresh(logdir)
    names = os.listdir(logdir) if os.path.isdir(logdir) else []
    for name in sorted(name for name in names if "tfevents" in name):
        for event in read_event_file(os.path.join(logdir, name)):
            yield from event


def read_event_file(path: str) -> Iterator[list[Event]]:
    """Yield what was written at once: scalars, texts and session logs, in order.

    The file is read up to its end or to its first damage (with a warning). A last record that its writer
    did not finish is ignored.

    Raises:
        SummaryError: The file cannot be read.
    """
    try:
        fetch(path)
        with open(local_path(path), "rb") as file:
            while (record := _next(file)) is not None:
                if events := list(messages.parse_event(record)):
                    yield events
    except OSError as exc:
        raise SummaryError(f"{remote_url(path)} cannot be read: {exc.strerror}.") from exc


def _next_stamp(logdir: str, now: int) -> int:
    """Return the time for the name of a file that comes after those that are there.

    A machine whose clock is ahead may have written them.
    """
    found = map(_STAMP.match, os.listdir(logdir))
    newest = max((int(each[1]) for each in found if each), default=now)
    return newest + 1 if newest > now else now


def _create(path: str, suffix: str) -> str:
    """Make a new file, and return its path: the argument, the first free number and the suffix."""
    number = 0
    while True:
        name = f"{path}.{number}{suffix}"
        try:
            open(name, "xb").close()
        except FileExistsError:
            number += 1
        else:
            return name


def _next(file: BinaryIO) -> bytes | None:
    try:
        return read_record(file)
    except RecordError as exc:
        if not exc.cut_off:
            _log.warning("%s: %s The rest of the file is left out.", file.name, exc)
        return None
