"""Finding a checkpoint, tracing and compiling: what `train`, `evaluate` and `predict` share."""

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from muster._arrays import AnyArray
from muster._errors import CheckpointMismatchError, DatasetError, TraceError
from muster._frontend import frontend
from muster._remote import remote_url
from muster.checkpoint import EXPORT, Checkpoint, MappedArray, close_files
from muster.checkpoint.tensorflow import read_either
from muster.cluster import Task
from muster.distribute import (
    InputContext,
    MultiWorkerMirroredStrategy,
    ParameterServerStrategyV1,
    Strategy,
    get_strategy,
)
from muster.distribute.engine import Executables, StepOnRows, is_hashed, unwrapped, without_tables
from muster.distribute.input import OwnInput, StepInput, StepSource
from muster.distribute.strategies import as_replica, compile_program, start_program
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._model_fn import InputFn, ModelFn, call_input_fn
from muster.estimator._run_config import RunConfig
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.loop._batches import Prepare
from muster.estimator.loop._from_tensorflow import renamed, restore_newest
from muster.estimator.loop._hashed_values import (
    hashed_columns,
    lookup_values,
    stored_shape,
    training_values,
)
from muster.estimator.loop._host_part import HostPart, for_step
from muster.estimator.loop._requested_outputs import RequestedOutputs
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS, trace_model_fn
from muster.estimator.loop._warm_start import WarmStartSettings
from muster.estimator.session._session import Outputs, SaveState, Session
from muster.feature_column import FeatureColumn, HostNeeded
from muster.program.trace import Program
from muster.program.variables import VariableKind

_log = logging.getLogger(__name__)

_SHOWN = 10
# With larger tables in files, there may be no memory to run a step on tables of zeros.
_RUN_EAGERLY_BYTES = 256 << 20
# How often a model_fn is traced to find out what the host is to do for it.
_TRACES = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class EstimatorSetup:
    """The model_fn, parameters and config of an Estimator, and the steps that were compiled so far.

    Args:
        model_fn: The user's function.
        params: Passed to the model_fn and to each input_fn.
        config: How to run; it has a model_dir.
        warm_start: Where variables start from while there is no checkpoint; None for their initializers.
        prepare: The host's part of the model; None for none.
        numeric_labels: The part of it that turns labels into numbers; takes placeholders, too.
        columns: The feature columns for which that works, without the weights of examples; None if the
            model_fn takes features as they are.
        host: The host's part of a model without a ``prepare``: it learns the columns that the model_fn uses.
        executables: The steps that were compiled, by their fingerprints.
    """

    model_fn: ModelFn
    params: Any
    config: RunConfig
    warm_start: WarmStartSettings | None
    prepare: Prepare | None = None
    numeric_labels: Callable[[Any], Any] = lambda labels: labels
    columns: tuple[FeatureColumn, ...] | None = None
    host: HostPart = dataclasses.field(default_factory=HostPart)
    executables: Executables = dataclasses.field(default_factory=dict)

    @property
    def columns_read(self) -> tuple[FeatureColumn, ...] | None:
        """The feature columns of the model, as far as they are known; None if there are none."""
        return self.columns if self.columns is not None else tuple(self.host.columns) or None

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and summaries."""
        return os.fspath(self.config.model_dir or "")

    @contextlib.contextmanager
    def opened_checkpoint(self, path: str | None, purpose: str) -> Iterator[Checkpoint | None]:
        """Read the checkpoint at a path, else the newest of the model directory, else none.

        Its large variables stay in its files, as `MappedArray`, which are open until the end.

        Args:
            path: The checkpoint; None for the newest.
            purpose: What it is for, for the log.
        """
        if path is not None:
            checkpoint: Checkpoint | None = read_either(path, tables=False, mapped=True)
        else:
            checkpoint = restore_newest(self.model_dir, mapped=True)
        if checkpoint is None:
            _log.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self.model_dir,
                purpose,
            )
            yield None
            return
        try:
            yield checkpoint
        finally:
            checkpoint.close()

    def call_input_fn(
        self, input_fn: InputFn, mode: ModeKeys, hooks: Sequence[SessionRunHook], context: InputContext
    ) -> Any:
        """Return what an input_fn returns for a pipeline, ready to be read."""
        returned = call_input_fn(input_fn, mode, self.params, self.config, context)
        if (before_reading := frontend().before_reading) is not None:
            before_reading(returned, hooks)
        return returned

    def log_share(self, batches: StepInput, strategy: Strategy) -> None:
        """Log which part of the input this worker reads, if there are others."""
        count = strategy.input_context.num_input_pipelines
        if count > 1:
            task = Task(self.config.task_type, self.config.task_id)
            _log.info("%s of %d reads %s.", task, count, batches.share)

    def trace(
        self,
        mode: ModeKeys,
        batches: StepInput,
        checkpoint: Checkpoint | None,
        strategy: Strategy | None = None,
    ) -> tuple[Program[EstimatorSpec], dict[str, AnyArray]]:
        """Trace the model_fn on the shapes of a batch, and find the values that its variables start from.

        Training that was interrupted restores metrics too. After training that ended by itself they start
        afresh, as the input does, and in evaluation and prediction.

        Args:
            mode: Whether to train, evaluate or predict.
            batches: The input, whose first batch is the example.
            checkpoint: The checkpoint to restore; None for initial values, or another model's.
            strategy: The strategy whose replicas will run the program; None for none.

        Returns:
            The program, and its state before the first step: variable path -> array of global shape.

        Raises:
            CheckpointMismatchError: The checkpoint lacks a variable of the model, other than the state of a
                generator, or has another shape.
            CheckpointError: The checkpoint to warm-start from cannot be read.
            ValueError: The `ModelSetup` gives a variable a value of another shape.
        """
        known = checkpoint.variables if checkpoint is not None else {}
        ended = checkpoint is None or checkpoint.metadata.get("ended", True)
        with contextlib.nullcontext() if strategy is None else as_replica(strategy):
            program = self._traced(mode, batches, known, resumes=mode == ModeKeys.TRAIN and not ended)
        state: dict[str, AnyArray] = dict(program.initial)
        if checkpoint is not None:
            restored = renamed(checkpoint, program.variables, program.initial)
            _require_match(program, restored)
            if restored is not checkpoint:
                state.update((v.path, restored.variables[v.path]) for v in program.variables if not v.local)
            if mode != ModeKeys.TRAIN:
                local = {v.path for v in program.variables if v.local}
                stored = {**restored.variables, **checkpoint.variables}
                chosen = program.static.scaffold.chosen(stored, checkpoint.path or "", without=local)
                state.update((path, value) for path, value in chosen.items() if path in state)
        elif self.warm_start is not None:
            state.update(self.warm_start.values(program.variables, state))
        if checkpoint is None:
            program.static.scaffold.initialize(state)
        if mode != ModeKeys.TRAIN:
            state.update(lookup_values(program.variables, checkpoint))
        elif checkpoint is not None:
            state.update(training_values(program.variables, state, checkpoint))
        return program, state

    def _traced(
        self, mode: ModeKeys, batches: StepInput, known: Mapping[str, AnyArray], *, resumes: bool
    ) -> Program[EstimatorSpec]:
        """Trace the model_fn, and let the host do its part for what it turns out to read.

        Raises:
            DatasetError: It reads a feature that is no array of numbers, and no operation turns it into one.
        """
        trace = functools.partial(
            trace_model_fn,
            self.model_fn,
            mode,
            batches,
            self.params,
            self.config,
            known,
            self.host,
            resumes=resumes,
        )
        if not isinstance(batches, OwnInput) or self.prepare is not None:
            return trace()
        overflow: OverflowError | None = None
        needs: TraceError | None = None
        for _ in range(_TRACES):
            try:
                with self.host.asking():
                    program = trace()
            except OverflowError as exc:  # at a number beside an array of int32 in the place of int64
                overflow = exc
                if not self.host.keep_integers(batches.example):
                    break
            except HostNeeded as needed:
                if not self.host.add(needed.columns):
                    break
            except Exception as exc:
                if self.host.work.learn() or self.host.read_too(self._missed(exc, batches)):
                    pass
                elif overflow is not None:
                    break
                elif isinstance(exc, TraceError) and self.host.keep_integers(batches.example):
                    needs = exc  # it makes text of numbers, say, which the host has if it keeps them
                elif needs is not None:
                    raise needs from exc
                else:
                    raise
            else:
                if not self.host.work.learn():
                    return program
            batches.reopen()
        if overflow is not None:
            raise DatasetError(
                f"The model_fn computes with a whole number that does not fit into 32 bits, in which steps "
                f"compute, and not only by functions that the host can call: {overflow}. Compute with such "
                "numbers in the input pipeline, or set jax_enable_x64."
            ) from overflow
        program = trace()
        if self.host.work.learn():
            raise DatasetError(
                "The model_fn computes with text otherwise in each trace, so that the host cannot do so "
                "before a step. Let it call functions with the same arguments each time, or do so in the "
                "input pipeline."
            )
        return program

    def _missed(self, exc: Exception, batches: StepInput) -> Iterable[str]:
        """Return the keys of features that are left out, and that the model_fn has missed."""
        if isinstance(exc, KeyError) and exc.args and exc.args[0] in self.host.left_out:
            return [exc.args[0]]
        # Without any feature, code fails in any way.
        features = None if batches.example is None else batches.example.features
        return self.host.left_out if isinstance(features, dict) and not features else []

    def start(
        self,
        program: Program[EstimatorSpec],
        state: dict[str, AnyArray],
        checkpoint: Checkpoint | None,
        strategy: Strategy,
        save: SaveState | None = None,
    ) -> tuple[Session, RequestedOutputs]:
        """Compile a program for the strategy's devices, and place its state on them.

        Args:
            program: The traced model_fn.
            state: Path -> array, as `trace` returns it.
            checkpoint: The checkpoint that the session starts from; None starts at step 0.
            strategy: Where to run.
            save: Writes checkpoints; None for none.

        Returns:
            A session at its first step, and what has the compiled step.
        """
        loss = LOSS if program.static.mode == ModeKeys.TRAIN else None
        asked = RequestedOutputs(
            program,
            lambda: compile_program(strategy, program, self.executables, loss),
            alone=strategy.workers.size == 1 and not strategy.steps.shared,
            host=self.host,
        )
        global_step = checkpoint.step if checkpoint is not None else 0
        if checkpoint is not None and program.adds_one(GLOBAL_STEP):
            # On servers it may have been a few steps of other workers further than the chief was.
            state = {**state, GLOBAL_STEP: np.full_like(state[GLOBAL_STEP], global_step)}
        trains = program.static.mode == ModeKeys.TRAIN
        session = Session(
            start_program(strategy, state, trains=trains),
            global_step=global_step,
            count_steps=_step_counter(program, global_step, strategy.steps),
            save=save,
            output_names=program.outputs,
            offers=asked,
            pairs=program.pairs,
            summaries=program.summaries,
            run_eagerly=lambda batch: _look_for_errors(program, asked, session, batch, strategy),
            look_up_step=strategy.steps.look_up if strategy.steps.shared else None,
        )
        if trains and not strategy.engine.starts_lazily:  # all values are in memory now
            close_files((*program.initial.values(), *state.values()))
        else:
            for value in without_tables(state).values():
                if isinstance(value, MappedArray):
                    session.resources.callback(value.close)
        return session, asked


def strategy_for(configured: Strategy | None) -> Strategy:
    """Return the strategy of a config, else the current one.

    Raises:
        RuntimeError: The current strategy is another than the config's.
    """
    current = get_strategy()
    if configured is None:
        return current
    if isinstance(configured, ParameterServerStrategyV1) and current.steps.shared:
        return current  # which has been made from it
    with configured.scope():
        return configured


@functools.cache
def joining_strategy() -> MultiWorkerMirroredStrategy:
    """Return the strategy of Estimators without one in a cluster of workers: one for the process."""
    strategy = MultiWorkerMirroredStrategy()
    if strategy.workers.size > 1:
        _log.warning(
            "The Estimator has no strategy: it takes MultiWorkerMirroredStrategy(), and trains one model in "
            "step with all %d workers, each of which takes batches of its own. To say so yourself, begin "
            "with strategy = MultiWorkerMirroredStrategy(), and give RunConfig(train_distribute=strategy).",
            strategy.workers.size,
        )
    return strategy


def log_restored(checkpoint: Checkpoint | None) -> None:
    """Log which checkpoint was restored, if one was read."""
    if checkpoint is not None and checkpoint.path:
        _log.info("Restoring parameters from %s", remote_url(checkpoint.path))


def _look_for_errors(
    program: Program[EstimatorSpec],
    asked: RequestedOutputs,
    session: Session,
    batch: Any,
    strategy: Strategy,
) -> None:
    """Raise the error for which a step returned NaN, if its batch is wrong.

    Raises:
        DatasetError: It is.
    """
    if program.static.mode != ModeKeys.TRAIN:
        state, reads = session.store.take()
        step = asked.prepare(state, reads, batch)
        if isinstance(step, StepOnRows):
            step.check_ids(state, batch)
        large = sum(each.nbytes for each in state.values() if isinstance(each, MappedArray))
        if large >= _RUN_EAGERLY_BYTES:
            return
    elif any(is_hashed(each.shape) for each in program.variables):
        return  # there are no arrays of their rows and slots
    with as_replica(strategy):
        program.step_eagerly(program.zeros(), for_step(unwrapped(batch)))


def _step_counter(
    program: Program[EstimatorSpec], global_step: int, steps: StepSource
) -> Callable[[Outputs], int] | None:
    """Return what reads the global step from a run's outputs; None if each run adds one to it."""
    if program.static.mode != ModeKeys.TRAIN:
        return lambda outputs: global_step
    if steps.shared:
        steps.global_step = global_step
        return lambda outputs: steps.global_step
    return None if program.adds_one(GLOBAL_STEP) else lambda outputs: int(outputs[GLOBAL_STEP])


def _require_match(program: Program[EstimatorSpec], checkpoint: Checkpoint) -> None:
    mode = program.static.mode
    stored = {path: tuple(value.shape) for path, value in checkpoint.variables.items()}
    stored.update((name, stored_shape(table, name)) for name, table in hashed_columns(checkpoint).items())
    wanted = {v.path: v for v in program.variables if v.saved and (mode == ModeKeys.TRAIN or not v.local)}
    # A generator may be of one mode alone, such as the noise of a prediction: it starts afresh.
    fresh = {path for path, v in wanted.items() if v.local or v.kind is VariableKind.SEED}
    if EXPORT in checkpoint.metadata and mode != ModeKeys.TRAIN:  # it has no optimizer and no global step
        fresh |= {path for path, v in wanted.items() if v.kind is not VariableKind.WEIGHT}
    missing = [str(v) for path, v in wanted.items() if path not in stored and path not in fresh]
    reshaped = [
        f"{v} (the checkpoint has {list(stored[path])})"
        for path, v in wanted.items()
        if path in stored and stored[path] != v.shape
    ]
    if not missing and not reshaped:
        return
    unused = [path for path in stored if path not in wanted] if mode == ModeKeys.TRAIN else []
    raise CheckpointMismatchError(
        f"The checkpoint {checkpoint.path} is of another model."
        + _listed(" It lacks", missing)
        + _listed(" It differs in shape in", reshaped)
        + _listed(" The model does not have its", unused)
        + " Give the model another model_dir, or build it as it was when it was saved."
    )


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}: {', '.join(names[:_SHOWN])}{more}."
