"""Training: from the newest checkpoint, through the steps, to the last checkpoint."""

import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from muster.checkpoint import Checkpoint, Checkpointer
from muster.distribute import Strategy
from muster.distribute.input import (
    DispatchedInput,
    OwnInput,
    StepInput,
    SynchronizedInput,
    synchronized,
)
from muster.distribute.workers import ElasticWorkers, ProgressReporter
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
from muster.estimator.loop._elastic_training import ElasticTraining
from muster.estimator.loop._from_tensorflow import restore_newest
from muster.estimator.loop._hook_states import HookStates
from muster.estimator.loop._progress_bar import ProgressBar, progress_bar
from muster.estimator.loop._requested_outputs import RequestedOutputs
from muster.estimator.loop._run_loop import TrainingSession, run_loop
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


@dataclasses.dataclass
class _Begun:
    """A training that has begun.

    Args:
        bar: Shows its progress.
        batches: Its input.
        session: Its state.
        asked: Its step.
        saver: Writes its checkpoints; None if another worker does.
        hooks: Called around its steps.
        become_chief: Makes what writes checkpoints and summaries, and returns it with all hooks.
    """

    bar: ProgressBar
    batches: OwnInput | DispatchedInput
    session: Session
    asked: RequestedOutputs
    saver: TrainingSaver | None
    hooks: list[SessionRunHook]
    become_chief: Callable[[], tuple[TrainingSaver, list[SessionRunHook]]]


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
            session, signals = begun.session, SignalWatch()
            try:
                with signals.watched():  # until the last checkpoint is complete
                    if not self._take_steps(begun, signals):
                        return
                    if begun.saver is not None:
                        begun.saver.end(session.global_step)
                    self._agree_to_end(signals)
                signals.raise_received()
            except (KeyboardInterrupt, Terminated) as exc:
                begun.bar.close()  # above what is told
                if not signals.aborted:
                    _tell(exc, session.global_step, begun.saver)
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
        is_chief = self._is_chief
        checkpointer = resources.enter_context(_checkpointer(config, model_dir)) if is_chief else None
        checkpoint = restore_newest(model_dir, set_aside=is_chief, mapped=True)
        checkpoint = chiefs_checkpoint(self.strategy, model_dir, checkpoint, resources)
        if self.max_steps is not None and checkpoint is not None and checkpoint.step >= self.max_steps:
            _log.info("Skipping training since max_steps has already saved.")
            log_all_done(self.max_steps, checkpoint.step, model_dir, is_chief=is_chief)
            return None
        bar = resources.enter_context(progress_bar(config, "Training"))
        batches = self._open_input(checkpoint, resources)
        if batches is None:
            return None
        begun = self._prepare(bar, checkpointer, checkpoint, batches, resources)
        session = begun.session
        if checkpoint is not None and not self.strategy.engine.starts_lazily:
            checkpoint.close()  # all of it is in memory now, and its files may be deleted
        bar.follow(session, self._last_step(session))
        log_restored(checkpoint)
        return begun

    @property
    def _is_chief(self) -> bool:
        """True if this worker saves. Where workers come and go, that is not the same one for good."""
        workers = self.strategy.workers
        return workers.is_chief if isinstance(workers, ElasticWorkers) else self.setup.config.is_chief

    def _agree_to_end(self, signals: SignalWatch) -> None:
        """Wait until all workers find the last checkpoint; all end if one has got a signal meanwhile.

        Of workers that come and go it ends alone, unless all have got one.
        """
        workers = self.strategy.workers
        gathered = workers.all_gather_object(signals.received)
        received = [(rank, number) for rank, number in enumerate(gathered) if number is not None]
        if workers.comes_and_goes and len(received) < len(gathered):
            received = [each for each in received if each[0] == workers.rank]
        if received:
            first = received[0]
            signals.note_others(first[1])
            workers.end_early(*first)

    def _last_step(self, session: Session) -> int | None:
        """Return the global step to stop at; None for no limit."""
        return self.max_steps if self.steps is None else session.global_step + self.steps

    def _open_input(
        self, checkpoint: Checkpoint | None, resources: ExitStack
    ) -> OwnInput | DispatchedInput | None:
        """Open the input where a checkpoint was written; None if training had read all of it by then."""
        strategy = self.strategy
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
            if self._is_chief and checkpoint is not None:
                mark_ended(checkpoint.path)
            return None
        return batches

    def _prepare(
        self,
        bar: ProgressBar,
        checkpointer: Checkpointer | None,
        checkpoint: Checkpoint | None,
        batches: OwnInput | DispatchedInput,
        resources: ExitStack,
    ) -> _Begun:
        """Trace and compile the model_fn, and make the session, what saves it, and the hooks."""
        config, strategy = self.setup.config, self.strategy
        program, state = self.setup.trace(ModeKeys.TRAIN, batches, checkpoint, self.strategy)
        require_saver(program, config, self.hooks, self.listeners)
        retention = program.static.scaffold.retention
        left_out = {each.path for each in program.variables if not each.saved}

        def retaining(checkpointer: Checkpointer) -> Checkpointer:
            if retention is not None:
                checkpointer.retain(*retention)
            return checkpointer

        def elsewhere(directory: str) -> Checkpointer:
            return retaining(resources.enter_context(_checkpointer(config, directory)))

        def saving(checkpointer: Checkpointer) -> tuple[TrainingSaver, EventFileWriter]:
            writer = resources.enter_context(EventFileWriter(self.setup.model_dir))
            if (report := strategy.workers.reporter) is not None:
                checkpointer.on_saved = lambda step: report(checkpoint=step)
                report(summaries=os.path.abspath(self.setup.model_dir))
            return TrainingSaver(retaining(checkpointer), elsewhere, strategy, writer, left_out), writer

        def hooks_with(
            saver: TrainingSaver | None, writer: EventFileWriter | None, checkpoint: Checkpoint | None
        ) -> list[SessionRunHook]:
            hooks = self._all_hooks(program, writer)
            states = HookStates(hooks, checkpoint)
            if saver is not None:
                saver.more = states.save
            return [states, *hooks]

        def become_chief() -> tuple[TrainingSaver, list[SessionRunHook]]:
            checkpointer = resources.enter_context(_checkpointer(config, self.setup.model_dir))
            saver, writer = saving(checkpointer)
            return saver, hooks_with(saver, writer, None)

        saver, writer = (None, None) if checkpointer is None else saving(checkpointer)
        session, asked = self.setup.start(program, state, checkpoint, strategy, saver)
        session.stands_still = not program.updates(GLOBAL_STEP)
        session.exchanged = strategy.workers.exchanged
        hooks = hooks_with(saver, writer, checkpoint)
        return _Begun(bar, batches, session, asked, saver, hooks, become_chief)

    def _all_hooks(
        self, program: Program[EstimatorSpec], writer: EventFileWriter | None
    ) -> list[SessionRunHook]:
        config, strategy = self.setup.config, self.strategy
        hooks = [*self.hooks]
        workers = strategy.workers
        if workers.reporter is not None:
            progress = ProgressReporter(workers.reporter, workers.exchanged)
            hooks.insert(0, ProgressReport(workers.reporter, progress, self.steps, self.max_steps))
        if self.steps is not None or self.max_steps is not None:
            hooks.append(StopAtStepHook(self.steps, self.max_steps))
        hooks = training_hooks(program, config, hooks, self.listeners, writer, is_chief=self._is_chief)
        if config.profile_dir is not None:
            folder = Path(config.profile_dir) / f"{config.task_type}-{config.task_id}"
            hooks.insert(0, StepProfile(folder, strategy.workers.exchanged))
        return hooks

    def _take_steps(self, begun: _Begun, signals: SignalWatch) -> bool:
        """Run the step on batch after batch, until a hook stops it or all workers have read their input.

        Returns:
            Whether there was anything to do: not for a worker that comes when the others have ended.
        """
        workers, replicas = self.strategy.workers, self.strategy.local_replicas
        session, batches = begun.session, begun.batches
        with (
            synchronized(workers, replicas, batches, signals) as steps,
            self.around_steps,
            ExitStack() as stack,
        ):
            loop = None
            if isinstance(workers, ElasticWorkers) and isinstance(steps, SynchronizedInput):
                loop = ElasticTraining(
                    workers,
                    self.strategy,
                    session,
                    steps,
                    self._last_step(session),
                    partial(self._become_chief, begun, steps),
                )
                if workers.joins:  # the others wait for it from then on
                    begun.asked.prepare(*session.store.take(), batches.example)
                if workers.joins and not loop.join():
                    _log.info("The others have ended their training: there is nothing left to do.")
                    return False
                stack.enter_context(workers.stepping(loop))
                stack.enter_context(workers.taking_in())
                begun.hooks = _ending_at(loop.last_step, begun.hooks)
            if begun.saver is not None:
                begun.saver.follow(steps, session)
            self.strategy.steps.begin(self._last_step(session))
            if isinstance(batches, DispatchedInput):
                batches.meet = partial(_compile, session, begun.asked, batches.example)
            # Workers that draw batches for more than one step would have to agree on how many. Beside servers
            # each step needs a ticket of its own, and its loss is looked at before the next. Hooks would be
            # late where a step adds more than one to the global step.
            single = functions_run_eagerly() or loop is not None or workers.size > 1 or not session.adds_one
            run_loop(
                session,
                begun.asked.step,
                steps,
                begun.hooks,
                signals=signals,
                steps_per_execution=1 if single else self.setup.config.steps_per_execution,
                elastic=loop,
                permitted=partial(self.strategy.steps.permitted, at_end=session.renew),
            )
            flush_compiled()
        return True

    def _become_chief(self, begun: _Begun, steps: StepInput, training: TrainingSession) -> None:
        """Save checkpoints and summaries from now on: the worker that did has gone."""
        begun.saver, hooks = begun.become_chief()
        begun.saver.follow(steps, begun.session)
        begun.session.save_by(begun.saver)
        old = next((hook for hook in begun.hooks if isinstance(hook, StopAtStepHook)), None)
        begun.hooks = [old if old and isinstance(hook, StopAtStepHook) else hook for hook in hooks]
        training.replace_hooks(begun.hooks)


def _ending_at(last_step: int | None, hooks: Sequence[SessionRunHook]) -> list[SessionRunHook]:
    """Return hooks that end a training at the same step on all workers, whenever each has come."""
    return [
        StopAtStepHook(last_step=last_step)
        if isinstance(hook, StopAtStepHook) and last_step is not None
        else hook
        for hook in hooks
    ]


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
