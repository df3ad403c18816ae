"""Hooks that write summaries: outputs of the step, and steps per second."""

import logging
import os
from collections.abc import Mapping
from typing import Any, Protocol

from muster._paths import local_path
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._fetches import as_named_fetches
from muster.estimator.session._session import Coordinator, Session
from muster.program import HistogramOutput, ImageOutput, Output, TextOutput
from muster.summary import EventFileWriter, SessionLog


class SummarySink(Protocol):
    """Takes summaries, as `muster.summary.EventFileWriter` does."""

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers of one step.

        Args:
            values: Tag -> number.
            step: The global step of the numbers.
        """

    def add_histogram(self, tag: str, values: Any, step: int, *, buckets: int) -> None:
        """Write how the values of an array are distributed; asked for only where a step has histograms."""

    def add_image(self, tag: str, images: Any, step: int, *, max_outputs: int) -> None:
        """Write images, of shape (batch, height, width, channels); asked for only where a step has some."""

    def add_text(self, tag: str, text: str, step: int) -> None:
        """Write a text; asked for only where a step has some."""

    def add_session_log(self, status: SessionLog, step: int) -> None:
        """Write a status of the training, such as that it starts.

        Args:
            status: With START, TensorBoard drops what earlier files hold of this step and later ones.
            step: The global step.
        """

    def flush(self) -> None:
        """Flush what was written to the file."""


def open_writer(
    session: Session, writer: SummarySink | None, output_dir: str | os.PathLike[str] | None
) -> SummarySink | None:
    """Return the writer that a hook was given, else open one that is closed with the session.

    Args:
        session: The session that begins.
        writer: The hook's argument, which the caller closes.
        output_dir: The folder for a new writer.

    Returns:
        The writer; None without a writer and a folder.
    """
    if writer is None and output_dir is not None:
        return session.resources.enter_context(EventFileWriter(output_dir))
    return writer


class HasSummaryOp(Protocol):
    """A scaffold, of which only ``summary_op`` is used."""

    summary_op: Any


class SummarySaverHook(SessionRunHook):
    """Writes values of the step as summaries, at the first run and then every N steps or seconds.

    A run may make several steps: it writes once at least N have passed since the last time. TensorFlow counts
    each run as one step.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``SummarySaverHook``.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        summary_writer: SummarySink | None = None,
        scaffold: HasSummaryOp | None = None,
        summary_op: Any = None,
    ) -> None:
        """Choose the scalars, the period and the writer.

        Args:
            save_steps: Period in steps.
            save_secs: Period in seconds. Exactly one of the two.
            output_dir: The folder for a new event file.
            summary_writer: Takes the summaries instead. Without it and a folder, nothing is written.
            scaffold: Its ``summary_op`` is used.
            summary_op: The values to write: tag -> name or handle, a list of names or handles, or one.
                Handles say what they are: numbers, or what ``summary_histogram``, ``summary_image`` and
                ``summary_text`` return. Exactly one of scaffold and summary_op.

        Raises:
            ValueError: None or both of a pair are given.
        """
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._output_dir = None if output_dir is None else local_path(output_dir, remote=True)
        self._summary_writer = summary_writer
        self._writer: SummarySink | None = None
        tensors = summary_op if scaffold is None else scaffold.summary_op
        self._all = as_named_fetches(tensors if isinstance(tensors, Mapping | list | tuple) else [tensors])
        self._fetches = {tag: each for tag, each in self._all.items() if not isinstance(each, TextOutput)}

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Write at the first run of this session."""
        session.require(self._fetches)
        self._timer.reset()
        self._writer = open_writer(session, self._summary_writer, self._output_dir)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the summaries if they are due."""
        session = run_context.session
        step = session.global_step
        if self._writer is None or not self._timer.should_trigger_for_step(step):
            return
        values = session.run(self._fetches)
        if self._timer.last_triggered_step() is None:
            self._writer.add_session_log(SessionLog.START, step)
        scalars = {tag: values[tag] for tag, each in self._fetches.items() if not _is_other(each)}
        self._writer.add_scalars(scalars, step)
        for tag, each in self._all.items():
            match each:
                case HistogramOutput(buckets=buckets):
                    self._writer.add_histogram(tag, values[tag], step, buckets=buckets)
                case ImageOutput(max_outputs=max_outputs):
                    self._writer.add_image(tag, values[tag], step, max_outputs=max_outputs)
                case TextOutput(text=text):
                    self._writer.add_text(tag, text, step)
        self._timer.update_last_triggered_step(step)

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.global_step)

    def end(self, session: Session) -> None:
        """Flush the writer."""
        if self._writer is not None:
            self._writer.flush()


def _is_other(fetch: str | Output) -> bool:
    return isinstance(fetch, HistogramOutput | ImageOutput)


_log = logging.getLogger(__name__)


class StepCounterHook(SessionRunHook):
    """Logs and records the steps per second, and the share of time that is spent on input.

    The log says ``global_step/sec: 123.4``. The summaries are ``global_step/sec`` and ``input_wait``, the
    share (0 to 1) of the time since the last report that runs waited for their batches. Steps that take no
    measurable time are not reported; TensorFlow reports an infinite rate.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``StepCounterHook``; ``input_wait`` is an
    addition.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        summary_writer: SummarySink | None = None,
    ) -> None:
        """Choose the period and the writer.

        Args:
            every_n_steps: Period in steps.
            every_n_secs: Period in seconds. Exactly one of the two.
            output_dir: The folder for a new event file.
            summary_writer: Takes the summaries instead.

        Raises:
            ValueError: Not exactly one period is given.
        """
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                "exactly one of every_n_steps and every_n_secs should be provided. "
                f"Got {every_n_steps=} and {every_n_secs=}."
            )
        self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_steps)
        self._output_dir = None if output_dir is None else local_path(output_dir, remote=True)
        self._summary_writer = summary_writer
        self._writer: SummarySink | None = None
        self._waited_secs = 0.0

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Measure from the first run of a training."""
        self._timer.reset()
        self._writer = open_writer(session, self._summary_writer, self._output_dir)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Report if it is due."""
        session = run_context.session
        step = session.global_step
        if not self._timer.should_trigger_for_step(step):
            return
        elapsed_secs, elapsed_steps = self._timer.update_last_triggered_step(step)
        waited_secs = session.input_wait_secs - self._waited_secs
        self._waited_secs = session.input_wait_secs
        if not elapsed_secs or elapsed_steps is None:
            return
        rate = elapsed_steps / elapsed_secs
        _log.info("global_step/sec: %g", rate)
        if self._writer is not None:
            self._writer.add_scalars(
                {"global_step/sec": rate, "input_wait": waited_secs / elapsed_secs}, step
            )

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.global_step)
