"""Training: from the newest checkpoint, through the steps, to the last checkpoint."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from muster.checkpoint import Checkpoint, Checkpointer
from muster.distribute import Strategy
from muster.distribute.input import DispatchedInput, OwnInput, synchronized
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._model_fn import InputFn
from muster.estimator._run_config import RunConfig
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener
from muster.estimator.hooks._stop import StopAtStepHook
from muster.estimator.loop._all_done import log_all_done
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._chiefs_checkpoint import chiefs_checkpoint
from muster.estimator.loop._default_hooks import ProgressReport, require_saver, training_hooks
from muster.estimator.loop._from_tensorflow import restore_newest
from muster.estimator.loop._hook_states import HookStates
from muster.estimator.loop._progress_bar import ProgressBar, progress_bar
from muster.estimator.loop._requested_outputs import RequestedOutputs
from muster.estimator.loop._run_loop import run_loop
from muster.estimator.loop._saving import TrainingSaver, mark_ended
from muster.estimator.loop._setup import EstimatorSetup, log_restored
from muster.estimator.loop._step_profile import StepProfile
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS
from muster.estimator.loop._training_input import open_training_input, saved_position
from muster.estimator.session import clock
from muster.estimator.session._session import Session
from muster.lifecycle import SignalWatch, Terminated, log_interrupt, mark_told
from muster.program.trace import Program, functions_run_eagerly
from muster.summary import EventFileWriter, flush_compiled

_log = logging.getLogger(__name__)

_Begun: TypeAlias = tuple[
    ProgressBar,
    OwnInput | DispatchedInput,
    Session,
    RequestedOutputs,
    TrainingSaver | None,
    list[SessionRunHook],
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """One call of ``Estimator.train``.

    Args:
        setup: The Estimator's model and config.
        strategy: Where to run.
        input_fn: The user's function.
        hooks: The user's hooks.
        listeners: Called around each checkpoint.
        steps: How many steps to add; None for no limit.
        max_steps: The global step to stop at; None for no limit.
        around_steps: Entered while steps are taken.
    """

    setup: EstimatorSetup
    strategy: Strategy
    input_fn: InputFn
    hooks: Sequence[SessionRunHook]
    listeners: Sequence[CheckpointSaverListener]
    steps: int | None
    max_steps: int | None
    around_steps: AbstractContextManager[None]

    def run(self) -> None:
        """Train, unless there is nothing left to do.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; the log says what is saved. SystemExit for SIGTERM.
        """
        with ExitStack() as resources:
            with log_interrupt("Interrupted before the first step: nothing new is saved."):
                begun = self._begin(resources)
            if begun is None:
                return
            bar, batches, session, asked, saver, hooks = begun
            signals = SignalWatch()
            try:
                with signals.watched():  # until the last checkpoint is complete
                    self._take_steps(session, asked, batches, saver, hooks, signals)
                    if saver is not None:
                        saver.end(session.global_step)
                    self._agree_to_end(signals)
                signals.raise_received()
            except (KeyboardInterrupt, Terminated) as exc:
                bar.close()  # above what is told
                if not signals.aborted:
                    _tell(exc, session.global_step, saver)
                raise
            loss = np.asarray(session.outputs[LOSS])[()] if session.outputs else None
            with log_interrupt("Interrupted after the last step."):
                resources.close()
        _log.info("Loss for final step: %s.", loss)

    def _begin(self, resources: ExitStack) -> _Begun | None:
        """Restore, open the input and make the session; returns None if there is nothing left to do."""
        config, model_dir = self.setup.config, self.setup.model_dir
        start_secs = config.session_creation_timeout_secs
        resources.enter_context(self.strategy.workers.supervised(start_secs, doing="train"))
        checkpointer = resources.enter_context(_checkpointer(config, model_dir)) if config.is_chief else None
        checkpoint = restore_newest(model_dir, set_aside=config.is_chief, mapped=True)
        checkpoint = chiefs_checkpoint(self.strategy, model_dir, checkpoint, resources)
        if self.max_steps is not None and checkpoint is not None and checkpoint.step >= self.max_steps:
            _log.info("Skipping training since max_steps has already saved.")
            log_all_done(self.max_steps, checkpoint.step, model_dir, is_chief=config.is_chief)
            return None
        bar = resources.enter_context(progress_bar(config, "Training"))
        batches = self._open_input(checkpoint, resources)
        if batches is None:
            return None
        session, asked, saver, hooks = self._prepare(checkpointer, checkpoint, batches, resources)
        if checkpoint is not None and not self.strategy.engine.starts_lazily:
            checkpoint.close()  # all of it is in memory now, and its files may be deleted
        bar.follow(session, self._last_step(session))
        log_restored(checkpoint)
        return bar, batches, session, asked, saver, hooks

    def _agree_to_end(self, signals: SignalWatch) -> None:
        """Wait until all workers find the last checkpoint; all end if one has got a signal meanwhile."""
        workers = self.strategy.workers
        received = enumerate(workers.all_gather_object(signals.received))
        first = next(((rank, number) for rank, number in received if number is not None), None)
        if first is not None:
            signals.note_others(first[1])
            workers.end_early(*first)

    def _last_step(self, session: Session) -> int | None:
        """Return the global step to stop at; None for no limit."""
        return self.max_steps if self.steps is None else session.global_step + self.steps

    def _open_input(
        self, checkpoint: Checkpoint | None, resources: ExitStack
    ) -> OwnInput | DispatchedInput | None:
        """Open the input where a checkpoint was written; None if training had read all of it by then."""
        config, strategy = self.setup.config, self.strategy
        position = saved_position(checkpoint, strategy)
        batches = open_training_input(
            self.setup,
            strategy,
            partial(self.setup.call_input_fn, self.input_fn, ModeKeys.TRAIN, self.hooks),
            checkpoint,
            position,
        )
        resources.enter_context(batches)
        self.setup.log_share(batches, strategy)
        if all(strategy.workers.all_gather_object(batches.first is None)) and position is not None:
            _log.info("Skipping training since the input was read to its end before the interruption.")
            if config.is_chief and checkpoint is not None:
                mark_ended(checkpoint.path)
            return None
        return batches

    def _prepare(
        self,
        checkpointer: Checkpointer | None,
        checkpoint: Checkpoint | None,
        batches: OwnInput | DispatchedInput,
        resources: ExitStack,
    ) -> tuple[Session, RequestedOutputs, TrainingSaver | None, list[SessionRunHook]]:
        """Trace and compile the model_fn, and make the session, what saves it, and the hooks."""
        config, strategy = self.setup.config, self.strategy
        program, state = self.setup.trace(ModeKeys.TRAIN, batches, checkpoint)
        require_saver(program, config, self.hooks, self.listeners)
        writer = saver = None
        if checkpointer is not None:
            writer = resources.enter_context(EventFileWriter(self.setup.model_dir))
            retention = program.static.scaffold.retention

            def retaining(checkpointer: Checkpointer) -> Checkpointer:
                if retention is not None:
                    checkpointer.retain(*retention)
                return checkpointer

            def elsewhere(directory: str) -> Checkpointer:
                return retaining(resources.enter_context(_checkpointer(config, directory)))

            left_out = {each.path for each in program.variables if not each.saved}
            saver = TrainingSaver(retaining(checkpointer), elsewhere, strategy, writer, left_out)
        session, asked = self.setup.start(program, state, checkpoint, strategy, saver)
        session.stands_still = not program.updates(GLOBAL_STEP)
        hooks = self._all_hooks(program, writer)
        states = HookStates(hooks, checkpoint)
        if saver is not None:
            saver.more = states.save
        return session, asked, saver, [states, *hooks]

    def _all_hooks(
        self, program: Program[EstimatorSpec], writer: EventFileWriter | None
    ) -> list[SessionRunHook]:
        config, strategy = self.setup.config, self.strategy
        hooks = [*self.hooks]
        if strategy.workers.reporter is not None:
            hooks.insert(0, ProgressReport(strategy.workers.reporter, self.steps, self.max_steps))
        if self.steps is not None or self.max_steps is not None:
            hooks.append(StopAtStepHook(self.steps, self.max_steps))
        hooks = training_hooks(program, config, hooks, self.listeners, writer)
        if config.profile_dir is not None:
            folder = Path(config.profile_dir) / f"{config.task_type}-{config.task_id}"
            hooks.insert(0, StepProfile(folder, lambda: strategy.workers.communication_secs))
        return hooks

    def _take_steps(
        self,
        session: Session,
        asked: RequestedOutputs,
        batches: OwnInput | DispatchedInput,
        saver: TrainingSaver | None,
        hooks: Sequence[SessionRunHook],
        signals: SignalWatch,
    ) -> None:
        """Run the step on batch after batch, until a hook stops it or all workers have read their input."""
        workers, replicas = self.strategy.workers, self.strategy.local_replicas
        with (
            synchronized(workers, replicas, batches, signals) as steps,
            self.around_steps,
        ):
            if saver is not None:
                saver.follow(steps, session)
            self.strategy.steps.begin(self._last_step(session))
            permitted = self.strategy.steps.permitted(steps, session.renew)
            if isinstance(batches, DispatchedInput):
                batches.meet = partial(_compile, session, asked, batches.example)
            # Workers that draw batches for more than one step would have to agree on how many. Beside servers
            # each step needs a ticket of its own, and its loss is looked at before the next. Hooks would be
            # late where a step adds more than one to the global step.
            single = functions_run_eagerly() or workers.size > 1 or not session.adds_one
            run_loop(
                session,
                asked.step,
                permitted,
                hooks,
                signals=signals,
                steps_per_execution=1 if single else self.setup.config.steps_per_execution,
            )
            flush_compiled()


def _checkpointer(config: RunConfig, directory: str) -> Checkpointer:
    return Checkpointer(
        directory,
        max_to_keep=config.keep_checkpoint_max,
        keep_every_n_hours=config.keep_checkpoint_every_n_hours or float("inf"),
        clock=lambda: clock.date(),
        timer=lambda: clock.now(),
    )


def _tell(interrupt: KeyboardInterrupt | Terminated, step: int, saver: TrainingSaver | None) -> None:
    """Log what is saved of a training that a signal has ended; a traceback would not say more."""
    if saver is not None and saver.has_saved(step):
        _log.warning("Saved step %d; run again to go on.", step)
    elif saver is not None:
        _log.warning("Interrupted at step %d, which is not saved: RunConfig asks for no checkpoints.", step)
    if isinstance(interrupt, KeyboardInterrupt):
        mark_told(interrupt)


def _compile(session: Session, asked: RequestedOutputs, example: StepBatch | None) -> None:
    """Compile a step for batches like an example; a worker meets its servers with that."""
    asked.prepare(*session.store.take(), example)
