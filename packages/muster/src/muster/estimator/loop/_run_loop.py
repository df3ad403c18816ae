"""The loop that takes a step with each batch, and calls the hooks around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol, Self

import jax

from muster._errors import JobEndedError
from muster.distribute.engine import BatchGroup, Step
from muster.distribute.workers import WorkersChangedError
from muster.estimator.hooks._base import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.session import clock
from muster.estimator.session._fetches import Fetches
from muster.estimator.session._session import Outputs, Session
from muster.lifecycle import SignalWatch, Terminated

_NO_VALUES = SessionRunValues(None)
_SESSIONS: ContextVar[Session | None] = ContextVar("muster_session_of_loop", default=None)


def session_of_loop() -> Session | None:
    """Return the session of the loop of steps that runs, whose hooks may be calling, if there is one."""
    return _SESSIONS.get()


class Elastic(Protocol):
    """Lets a loop go on when the workers have changed."""

    def changed(self) -> None:
        """Prepare to make the step under way again."""

    def before_run(self, training: TrainingSession) -> None:
        """Do what is due before a run; it may replace the hooks."""


class TrainingSession:
    """Takes steps, each with the next batch, and calls the hooks around each ``run()``.

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
        elastic: Elastic | None = None,
        permitted: Callable[[Iterator[Any]], Iterator[Any]] = iter,
    ) -> None:
        """Prepare a session; nothing runs yet.

        Args:
            session: The variables and the global step.
            step: Computes one step.
            batches: The batches of the steps.
            hooks: Called in this order.
            signals: The watch for Ctrl-C and SIGTERM; None for a new one.
            hold_signals: Whether Ctrl-C and SIGTERM let the current run finish.
            steps_per_execution: How many steps a run makes at most; then ``step`` takes ``BatchGroup``.
            elastic: Goes on when the workers have changed; None if they do not.
            permitted: Returns the batches on which this process may make a step, of those that are read.
        """
        self.session = session
        self._elastic = elastic
        self._step = step
        self._take_hooks(hooks)
        self._context = SessionRunContext(SessionRunArgs(None), session)
        self._steps_per_execution = steps_per_execution
        self._hold_signals = hold_signals
        self._signals = watch = SignalWatch() if signals is None else signals
        self._batches = permitted(_Reader(batches, session, watch))
        session.interrupted = lambda: watch.received is not None
        self._undo = ExitStack()

    def _take_hooks(self, hooks: Sequence[SessionRunHook]) -> None:
        self._hooks = tuple(hooks)
        self._before_runs = [hook for hook in self._hooks if _overrides(hook, "before_run")]
        self._after_runs = [
            (id(hook), hook.after_run) for hook in self._hooks if _overrides(hook, "after_run")
        ]
        self._called_in_runs = [
            hook for hook in self._hooks if _overrides(hook, "before_run") or _overrides(hook, "after_run")
        ]

    def replace_hooks(self, hooks: Sequence[SessionRunHook]) -> None:
        """Call other hooks from now on; those that are new begin here."""
        new = [hook for hook in hooks if not any(hook is old for old in self._hooks)]
        for hook in new:
            hook.begin()
        for hook in new:
            hook.after_create_session(self.session, self.session.coord)
        self._take_hooks(hooks)

    def should_stop(self) -> bool:
        """Return whether the last run was the last one."""
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
        """Take a step with the next batch, or steps with the next few, and call the hooks around them.

        Raises:
            StopIteration: There are no more batches.
            KeyboardInterrupt: Ctrl-C was pressed since the last run; SystemExit for SIGTERM.
            KeyError: A hook asks for an unknown output.
        """
        session = self.session
        if not self._signals.shared:
            self._signals.raise_received()
        if self._elastic is not None:
            self._elastic.before_run(self)
        requests = self._call_before_run(self._before_runs) if self._before_runs else {}

        while True:
            try:
                self._take_steps()
                break
            except WorkersChangedError:
                if self._elastic is None:
                    raise
                self._elastic.changed()
            except Terminated:
                if self._elastic is not None and not self._signals.received:  # too few are left
                    self._elastic.before_run(self)
                raise

        values = {}
        if requests:
            values = {hook: SessionRunValues(session.run(fetches)) for hook, fetches in requests.items()}
        interrupt: BaseException | None = None
        for hook, after_run in self._after_runs:
            try:
                after_run(self._context, values.get(hook, _NO_VALUES))
            except (KeyboardInterrupt, Terminated) as exc:
                # Such as in an evaluation after a checkpoint. The other hooks are to know of this step, too.
                if self._signals.aborted:
                    raise
                interrupt = interrupt or exc
        if interrupt is not None:
            raise interrupt

    def _take_steps(self) -> None:
        """Take the steps of a run."""
        session = self.session
        self._signals.waiting = not self._signals.shared
        try:
            batches = [next(self._batches)]
            if self._steps_per_execution > 1:
                batches += itertools.islice(self._batches, self._steps_until_due() - 1)
        finally:
            self._signals.waiting = False
        session.batches = batches
        if len(batches) > 1 and len(batches) == self._steps_per_execution and _have_same_shapes(batches):
            stacked = BatchGroup(batches)
            session.advance(*self._step(*session.store.take(), stacked), steps=len(batches))
        else:  # the step is not compiled for this number of batches
            earlier: tuple[Outputs, ...] = ()
            for batch in batches:
                session.advance(*self._step(*session.store.take(), batch), earlier=earlier)
                earlier = (*earlier, session.outputs)

    def _steps_until_due(self) -> int:
        """Return how many steps the next run may make."""
        wanted = (hook.steps_until_due(self.session) for hook in self._called_in_runs)
        return max(1, min([self._steps_per_execution, *(steps for steps in wanted if steps is not None)]))

    def _call_before_run(self, hooks: Sequence[SessionRunHook]) -> dict[int, Fetches]:
        """Return what hooks want to read after this run, by their identity."""
        requests = {}
        for hook in hooks:
            args = hook.before_run(self._context)
            if args is None:
                continue
            if not isinstance(args, SessionRunArgs):
                raise TypeError(
                    f"before_run of {hook!r} must return SessionRunArgs(...) or None, it returned {args!r}."
                )
            if args.feed_dict:
                raise ValueError(
                    f"{hook!r} feeds {args.feed_dict!r}, but a compiled step reads its batch "
                    "and nothing else. Put the value into the input pipeline, or into a variable."
                )
            self.session.require(args.fetches)
            requests[id(hook)] = args.fetches
        return requests

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Call the hooks' ``end`` at a clean stop, or ``interrupted`` at Ctrl-C; let every error pass."""
        is_clean = exc is None or isinstance(exc, StopIteration)
        with self._undo:
            if is_clean:
                self.session.check_step()
                if exc is None:  # at the end of the batches, what hands them out has done so
                    with suppress(JobEndedError):
                        self.session.renew()
                for hook in self._hooks:
                    hook.end(self.session)
            elif isinstance(exc, KeyboardInterrupt | Terminated) and not self._signals.aborted:
                self._signals.note_interrupt()
                for hook in self._hooks:
                    hook.interrupted(self.session)
        if is_clean and not self._signals.shared:  # else the workers agree on that
            self._signals.raise_received()  # also what came until the handlers were put back
        return is_clean


class _Reader(Iterator[Any]):
    """Reads batches, and counts in a session for how long. Meanwhile the first signal is raised at once."""

    def __init__(self, batches: Iterator[Any], session: Session, signals: SignalWatch) -> None:
        self._batches, self._session, self._signals = batches, session, signals

    def __next__(self) -> Any:
        session, signals = self._session, self._signals
        began, exchanged, was_waiting = clock.now(), session.exchanged.secs, signals.waiting
        signals.waiting = not signals.shared
        try:
            return next(self._batches)
        finally:
            signals.waiting = was_waiting
            # Others are asked which batch is next, or whether they have one: that is no wait for input.
            session.input_wait_secs += clock.now() - began - (session.exchanged.secs - exchanged)


def run_loop(
    session: Session,
    step: Step,
    batches: Iterator[Any],
    hooks: Sequence[SessionRunHook] = (),
    *,
    signals: SignalWatch | None = None,
    steps_per_execution: int = 1,
    elastic: Elastic | None = None,
    permitted: Callable[[Iterator[Any]], Iterator[Any]] = iter,
) -> None:
    """Take steps until a hook asks to stop or the batches end.

    Args:
        session: The variables and the global step, updated by each step.
        step: Computes one step.
        batches: The batches of the steps.
        hooks: Called in this order.
        signals: The watch for Ctrl-C and SIGTERM; None for a new one.
        steps_per_execution: How many steps to dispatch together at most.
        elastic: As for `TrainingSession`.
        permitted: Likewise.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; the current run is finished, and the last step is saved.
        SystemExit: With 143: likewise for SIGTERM.
    """
    token = _SESSIONS.set(session)
    try:
        with TrainingSession(
            session,
            step,
            batches,
            hooks,
            signals=signals,
            steps_per_execution=steps_per_execution,
            elastic=elastic,
            permitted=permitted,
        ) as training:
            while not training.should_stop():
                training.run()
    finally:
        _SESSIONS.reset(token)


def _have_same_shapes(batches: list[Any]) -> bool:
    """Return whether batches have the same structure and shapes."""
    structures = {jax.tree.structure(batch) for batch in batches}
    return len(structures) == 1 and all(
        len({(leaf.shape, leaf.dtype) for leaf in leaves}) == 1
        for leaves in zip(*map(jax.tree.leaves, batches), strict=True)
    )


def _overrides(hook: SessionRunHook, method: str) -> bool:
    """Return whether a hook overrides a method; others need not be called in each run."""
    return getattr(getattr(hook, method), "__func__", None) is not getattr(SessionRunHook, method)
