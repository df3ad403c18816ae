"""The loop that runs a step over batches and calls the hooks around it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import jax

from muster.distribute.engine._compiled import StackedBatches
from muster.distribute.engine._traced import Step
from muster.distribute.workers._signals import SignalWatch, Terminated
from muster.estimator.hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from muster.estimator.session import _clock
from muster.estimator.session._fetches import Fetches
from muster.estimator.session._session import Session

_NO_VALUES = SessionRunValues(None)


class TrainingSession:
    """Runs a step over batches, one ``run()`` a batch, and calls the hooks.

    It is used as ``with TrainingSession(...) as training: while not training.should_stop(): training.run()``.
    The hooks' ``end`` is called when the block ends without an exception, or with StopIteration, which the
    end of the data raises and the block swallows. Every other exception propagates, without ``end``.

    Ctrl-C and SIGTERM let the current run finish; then the hooks' ``interrupted`` is called, so that the last
    step is saved, and KeyboardInterrupt or SystemExit(143) is raised. A second one is raised at once.

    Source: tensorflow/python/training/monitored_session.py, ``_MonitoredSession`` and ``_HookedSession``.
    Sessions are not created anew after an error, as TensorFlow does for lost parameter servers.
    """

    def __init__(
        self,
        session: Session,
        step: Step,
        batches: Iterator[Any],
        hooks: Sequence[SessionRunHook] = (),
        *,
        signals: SignalWatch | None = None,
        hold_signals: bool = True,
        steps_per_execution: int = 1,
    ) -> None:
        """Tie the parts together; nothing runs yet.

        Args:
            session: Variables and where they stand.
            step: What one run does.
            batches: What the runs are given.
            hooks: Called in this order.
            signals: Notes Ctrl-C and SIGTERM; None for a watch of this session's own.
            hold_signals: Whether Ctrl-C and SIGTERM let the current run finish.
            steps_per_execution: How many steps a run makes at most; then ``step`` takes ``StackedBatches``.
        """
        self.session = session
        self._step = step
        self._batches = batches
        self._hooks = tuple(hooks)
        self._before_runs = [
            (index, hook.before_run)
            for index, hook in enumerate(self._hooks)
            if _overrides(hook, "before_run")
        ]
        self._after_runs = [
            (index, hook.after_run) for index, hook in enumerate(self._hooks) if _overrides(hook, "after_run")
        ]
        self._context = SessionRunContext(SessionRunArgs(None), session)
        self._steps_per_execution = steps_per_execution
        self._called = [hook for hook in self._hooks if _is_called(hook)]
        self._hold_signals = hold_signals
        self._signals = SignalWatch() if signals is None else signals
        self._undo = ExitStack()

    def should_stop(self) -> bool:
        """Whether there is to be no further run."""
        return self.session.should_stop()

    def __enter__(self) -> Self:
        """Call the hooks' ``begin`` and ``after_create_session``."""
        with ExitStack() as undo:
            undo.push(self.session.resources)
            if self._hold_signals:
                undo.enter_context(self._signals.watched())
            for hook in self._hooks:
                hook.begin()
            for hook in self._hooks:
                hook.after_create_session(self.session, self.session.coord)
            self._undo = undo.pop_all()
        return self

    def run(self) -> None:
        """Give the next batch to the step, or the next few, with the hooks around it.

        Raises:
            StopIteration: There are no more batches.
            KeyboardInterrupt: Ctrl-C was pressed since the run before; SystemExit for SIGTERM.
            KeyError: A hook asks for an output that there is not.
        """
        session = self.session
        if not self._signals.shared:
            self._signals.raise_received()
        requests = self._call_before_run() if self._before_runs else None

        wait_began = _clock.now()
        self._signals.waiting = not self._signals.shared
        try:
            batches = [next(self._batches)]
            if self._steps_per_execution > 1:
                batches += itertools.islice(self._batches, self._steps_until_due() - 1)
        finally:
            self._signals.waiting = False
        session.input_wait_secs += _clock.now() - wait_began
        if len(batches) > 1 and len(batches) == self._steps_per_execution and _are_alike(batches):
            session.advance(*self._step(*session.store.take(), StackedBatches(batches)), steps=len(batches))
        else:  # not compiled for this number of them as well
            for batch in batches:
                session.advance(*self._step(*session.store.take(), batch))

        if not requests:
            for _, after_run in self._after_runs:
                after_run(self._context, _NO_VALUES)
            return
        values = {index: SessionRunValues(session.run(fetches)) for index, fetches in requests.items()}
        for index, after_run in self._after_runs:
            after_run(self._context, values.get(index, _NO_VALUES))

    def _steps_until_due(self) -> int:
        """How many steps the next run may make."""
        wanted = (hook.steps_until_due(self.session) for hook in self._called)
        return max(1, min([self._steps_per_execution, *(steps for steps in wanted if steps is not None)]))

    def _call_before_run(self) -> dict[int, Fetches]:
        """What each hook, by its place, wants to read after this run."""
        requests = {}
        for index, before_run in self._before_runs:
            args = before_run(self._context)
            if args is None:
                continue
            if args.feed_dict:
                raise ValueError(
                    f"{self._hooks[index]!r} feeds {args.feed_dict!r}, but a compiled step reads its batch "
                    "and nothing else. Put the value into the input pipeline, or into a variable."
                )
            requests[index] = args.fetches
        return requests

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Call the hooks' ``end`` at a clean stop, or ``interrupted`` at Ctrl-C; let every error pass."""
        with self._undo:
            if exc is None or isinstance(exc, StopIteration):
                self.session.check_step()
                for hook in self._hooks:
                    hook.end(self.session)
                self._signals.raise_received()
                return True
            if isinstance(exc, KeyboardInterrupt | Terminated) and not self._signals.aborted:
                self._signals.note_interrupt()
                for hook in self._hooks:
                    hook.interrupted(self.session)
            return False


def run_loop(
    session: Session,
    step: Step,
    batches: Iterator[Any],
    hooks: Sequence[SessionRunHook] = (),
    *,
    signals: SignalWatch | None = None,
    steps_per_execution: int = 1,
) -> None:
    """Run a step over batches until a hook asks to stop or the batches end.

    Args:
        session: Variables and where they stand; it ends up with the last ones.
        step: What one run does.
        batches: What the runs are given.
        hooks: Called in this order.
        signals: Notes Ctrl-C and SIGTERM; None for a watch of this session's own.
        steps_per_execution: How many steps to dispatch together at most.

    Raises:
        KeyboardInterrupt: At Ctrl-C, once the current run is finished and the last step is saved.
        SystemExit: With 143 at SIGTERM, likewise.
    """
    with TrainingSession(
        session, step, batches, hooks, signals=signals, steps_per_execution=steps_per_execution
    ) as training:
        while not training.should_stop():
            training.run()


def _is_called(hook: SessionRunHook) -> bool:
    return _overrides(hook, "before_run") or _overrides(hook, "after_run")


def _are_alike(batches: list[Any]) -> bool:
    """Whether batches have the same structure and shapes."""
    structures = {jax.tree.structure(batch) for batch in batches}
    return len(structures) == 1 and all(
        len({(leaf.shape, leaf.dtype) for leaf in leaves}) == 1
        for leaves in zip(*map(jax.tree.leaves, batches), strict=True)
    )


def _overrides(hook: SessionRunHook, method: str) -> bool:
    """Whether a hook has its own version of a method: what it has not need not be called in each run."""
    return getattr(getattr(hook, method), "__func__", None) is not getattr(SessionRunHook, method)
