"""The default summary writer, its step, and the switch for recording."""

import contextlib
import dataclasses
import os
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from muster._errors import SummaryError
from muster.summary._event_files import EventFileWriter

Condition: TypeAlias = bool | Callable[[], Any] | Any
"""The switch for recording: a truth value, which may be an array, or a function that returns one."""


@dataclasses.dataclass(frozen=True)
class _State:
    writer: "SummaryWriter | None" = None
    step: Any = None
    condition: Condition = True
    replica: Any = None  # the number of the replica whose code runs


_STATE: ContextVar[_State | None] = ContextVar("muster_summary_state", default=None)


_COMPILED: "weakref.WeakSet[SummaryWriter]" = weakref.WeakSet()


def _state() -> _State:
    return _STATE.get() or _State()


class SummaryWriter:
    """Takes the summaries of code that runs with it as the default writer, into one event file.

    It is closed at the end of the process at the latest. `create_file_writer` makes one.

    Args:
        events: The file; None drops everything.

    Source: tensorflow/python/ops/summary_ops_v2.py, ``SummaryWriter``.
    """

    def __init__(self, events: EventFileWriter | None) -> None:
        self._events = events
        self._compiled = [False]
        if events is not None:
            # Not a method: it would keep this object alive.
            self._finish = weakref.finalize(self, _close, events, self._compiled)

    @property
    def events(self) -> EventFileWriter | None:
        """The event file; None if everything is dropped."""
        return self._events

    def await_steps(self) -> None:
        """Note that compiled code writes here, which `flush` and `close` wait for."""
        self._compiled[0] = True
        _COMPILED.add(self)

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator["SummaryWriter"]:
        """Make this the default writer inside of a ``with`` block, and write its summaries at the end.

        Those of compiled code that still runs are written later, with others or at the next `flush`.

        Args:
            step: The default step there; None keeps the one before.
        """
        before = _state()
        _STATE.set(dataclasses.replace(before, writer=self, step=before.step if step is None else step))
        try:
            yield self
            self._write()
        except BaseException:
            with contextlib.suppress(SummaryError):  # what is raised already says more
                self._write()
            raise
        finally:
            if step is None:  # else set_step inside of the block is undone, too, as in TensorFlow
                before = dataclasses.replace(before, step=_state().step)
            _STATE.set(dataclasses.replace(_state(), writer=before.writer, step=before.step))

    def set_as_default(self, step: Any = None) -> None:
        """Make this the default writer of this thread from now on, and ``step`` the default step."""
        before = _state()
        _STATE.set(dataclasses.replace(before, writer=self, step=before.step if step is None else step))

    def init(self) -> None:
        """Do nothing: the file is there already."""

    def flush(self) -> None:
        """Write all summaries to the file, those of compiled code that still runs as well.

        Raises:
            SummaryError: The file cannot be written.
        """
        if self._events is not None:
            try:
                _await(self._compiled)
            finally:
                self._write()

    def _write(self) -> None:
        """Write what is here to the file, without waiting for compiled code."""
        if self._events is not None:
            self._events.flush()

    def close(self) -> None:
        """Flush, and refuse summaries from now on. May be called again.

        Raises:
            SummaryError: The file cannot be written.
        """
        if self._events is not None:
            self._finish.detach()
            _close(self._events, self._compiled)


def create_file_writer(
    logdir: str | os.PathLike[str],
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """Create a writer of a new event file in a folder, which TensorBoard shows.

    Args:
        logdir: The folder; it is made if it is missing.
        max_queue: How many summaries wait in memory at most, beside the limits of ``flush_millis`` and of
            64 KiB; None sets no limit, where TensorFlow's is 10.
        flush_millis: The longest time in milliseconds between two writes to the disk; None is 10,000.
        filename_suffix: The end of the file's name; None is ``.v2``.
        name: Unused.

    Raises:
        SummaryError: The file cannot be written.

    Source: tensorflow/python/ops/summary_ops_v2.py, ``create_file_writer_v2``.

    Example:
        ```python
        with muster.summary.create_file_writer("runs/curves").as_default():
            muster.summary.scalar("loss", 0.5, step=1)
        ```
    """
    seconds = 10.0 if flush_millis is None else flush_millis / 1000
    suffix = ".v2" if filename_suffix is None else filename_suffix
    return SummaryWriter(
        EventFileWriter(logdir, filename_suffix=suffix, flush_secs=seconds, max_queue=max_queue)
    )


def create_noop_writer() -> SummaryWriter:
    """Return a writer that drops everything."""
    return SummaryWriter(None)


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Flush a writer; None is the default one, if there is one. ``name`` is unused.

    Raises:
        SummaryError: The file cannot be written.
    """
    if (each := writer or _state().writer) is not None:
        each.flush()


def flush_compiled() -> None:
    """Flush the writers of summaries in compiled code, such as the steps of an Estimator.

    Raises:
        SummaryError: A file cannot be written.
    """
    for writer in list(_COMPILED):
        writer.flush()


@contextlib.contextmanager
def _with(name: str, value: Any) -> Iterator[None]:
    """Set a part of the state inside of a ``with`` block."""
    before = getattr(_state(), name)
    _STATE.set(dataclasses.replace(_state(), **{name: value}))
    try:
        yield
    finally:
        _STATE.set(dataclasses.replace(_state(), **{name: before}))


def record_if(condition: Condition) -> contextlib.AbstractContextManager[None]:
    """Record summaries inside of a ``with`` block only if a condition is true.

    Args:
        condition: A truth value, which may be computed in a compiled step, or a function that returns one.
            The innermost block counts.
    """
    return _with("condition", condition)


def should_record_summaries() -> Any:
    """Return whether there is a default writer and the condition of `record_if` holds; maybe an array."""
    state = _state()
    if state.writer is None or state.writer.events is None:
        return False
    return state.condition() if callable(state.condition) else state.condition


def get_step() -> Any:
    """Return the default step of summaries; None if there is none."""
    return _state().step


def set_step(step: Any) -> None:
    """Set the default step of summaries in this thread: a number, or a variable that holds one."""
    _STATE.set(dataclasses.replace(_state(), step=step))


def default_writer() -> SummaryWriter | None:
    """Return the default writer."""
    return _state().writer


def of_replica(number: Any) -> contextlib.AbstractContextManager[None]:
    """Run the code of a replica, inside of a ``with`` block: the first one's summaries are recorded.

    Args:
        number: The replica's number, from 0; it may be computed in a compiled step.
    """
    return _with("replica", number)


def replica_number() -> Any:
    """Return the number of the replica whose code runs; 0 where there is only one."""
    number = _state().replica
    return 0 if number is None else number


def _await(compiled: list[bool]) -> None:
    if compiled[0]:
        import jax

        jax.effects_barrier()


def _close(events: EventFileWriter, compiled: list[bool]) -> None:
    try:
        _await(compiled)
    finally:
        events.close()
