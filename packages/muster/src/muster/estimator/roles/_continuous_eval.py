"""Continuous evaluation of the newest checkpoint, by an evaluator or in pauses of training."""

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from muster._errors import CheckpointNotFoundError, DamagedCheckpointError
from muster.estimator._model_fn import InputFn
from muster.estimator._run_config import RunConfig
from muster.estimator._specs import EvalSpec
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.roles._who_evaluates import UntilEvaluator
from muster.estimator.session import clock
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)

EVALUATED = "evaluated"
MISSING_CHECKPOINT = "missing checkpoint"
NO_NEW_CHECKPOINT = "no new checkpoint"

# How long an evaluator may be without a new checkpoint before it logs a warning, and how often, in seconds.
_WARNING_SECS = 600


@runtime_checkable
class EstimatorLike(Protocol):
    """An Estimator, as far as `train_and_evaluate` uses it."""

    @property
    def config(self) -> RunConfig: ...

    @property
    def model_dir(self) -> str: ...

    def train(
        self,
        input_fn: InputFn,
        *,
        max_steps: int | None,
        hooks: list[SessionRunHook],
        saving_listeners: list[CheckpointSaverListener],
    ) -> object: ...

    def evaluate(
        self,
        input_fn: InputFn,
        *,
        steps: int | None,
        hooks: list[SessionRunHook],
        checkpoint_path: str | None,
        name: str | None,
    ) -> Mapping[str, Any]: ...

    def latest_checkpoint(self) -> str | None: ...


class _ContinuousEvalFields(NamedTuple):
    status: str
    metrics: Mapping[str, Any] | None
    checkpoint_path: str | None


class EvalResult(_ContinuousEvalFields):
    """The result of an attempt to evaluate the newest checkpoint.

    Source: ``_EvalResult`` (tensorflow_estimator/python/estimator/training.py).

    Args:
        status: `EVALUATED`, `MISSING_CHECKPOINT` or `NO_NEW_CHECKPOINT`.
        metrics: The result of ``Estimator.evaluate``, if it was called.
        checkpoint_path: The checkpoint that was evaluated.

    Raises:
        ValueError: The arguments contradict each other.
    """

    __slots__ = ()

    def __new__(
        cls, status: str, metrics: Mapping[str, Any] | None = None, checkpoint_path: str | None = None
    ) -> Self:
        if status != EVALUATED:
            if metrics:
                raise ValueError(
                    f"metrics must be `None` if status is not evaluated; got status {status}, "
                    f"metrics {metrics}"
                )
        elif not metrics:
            raise ValueError("Internal error: `Estimator.evaluate` should never return empty metrics.")
        elif "global_step" not in metrics:
            raise ValueError(
                "Internal error: `Estimator.evaluate` result should have `global_step` in result. "
                f"Given {metrics}"
            )
        elif not checkpoint_path:
            raise ValueError("Internal error: `checkpoint_path` should never be empty.")
        return super().__new__(cls, status, metrics, checkpoint_path)


class ContinuousEvalListener:
    """Called around each evaluation; subclasses override methods.

    Source: ``_ContinuousEvalListener`` (tensorflow_estimator/python/estimator/training.py).
    """

    def before_eval(self) -> bool:
        """Called before each attempt to evaluate. Returns False to stop."""
        return True

    def after_eval(self, eval_result: EvalResult) -> bool:
        """Called after an evaluation and its exports. Returns False to stop."""
        return True


class Evaluator:
    """Evaluates and exports the newest checkpoint, each checkpoint once.

    Source: ``_TrainingExecutor._Evaluator`` (tensorflow_estimator/python/estimator/training.py).
    """

    def __init__(self, estimator: EstimatorLike, eval_spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator = estimator
        self._spec = eval_spec
        self._max_steps = max_steps
        self._previous: str | None = None
        self._quiet_since = clock.now()
        self._logged = False

    def evaluate_and_export(self) -> tuple[EvalResult, list[Any]]:
        """Evaluate the newest checkpoint; return the result, and those of the exporters."""
        while True:
            newest = self._estimator.latest_checkpoint()
            try:
                return self._evaluate(newest)
            except DamagedCheckpointError as exc:
                _log.warning("Skipping the evaluation of a damaged checkpoint: %s", exc)
                self._previous = newest
                return EvalResult(NO_NEW_CHECKPOINT), []
            except CheckpointNotFoundError:
                if self._estimator.latest_checkpoint() == newest:
                    raise  # another one was not found
                _log.info("The checkpoint was deleted, since there are newer ones: evaluating the newest.")

    def _evaluate(self, checkpoint: str | None) -> tuple[EvalResult, list[Any]]:
        if checkpoint is None:
            self._warn("Estimator is not trained yet. Will start an evaluation when a checkpoint is ready.")
            return EvalResult(MISSING_CHECKPOINT), []
        if checkpoint == self._previous:
            self._warn(
                "No new checkpoint ready for evaluation. Skip the current evaluation pass as evaluation "
                "results are expected to be same for the same checkpoint."
            )
            return EvalResult(NO_NEW_CHECKPOINT), []
        spec = self._spec
        metrics = self._estimator.evaluate(
            spec.input_fn,
            steps=spec.steps,
            hooks=list(spec.hooks),
            checkpoint_path=checkpoint,
            name=spec.name,
        )
        result = EvalResult(EVALUATED, metrics, checkpoint)
        final = is_final(metrics, self._max_steps)
        exports = [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
                checkpoint_path=checkpoint,
                eval_result=metrics,
                is_the_final_export=final,
            )
            for exporter in spec.exporters
        ]
        self._previous, self._quiet_since, self._logged = checkpoint, clock.now(), False
        return result, exports

    def _warn(self, message: str) -> None:
        """Log that there is nothing to evaluate: first as it is usual, and as a warning if it lasts."""
        now = clock.now()
        if now - self._quiet_since > _WARNING_SECS:
            _log.warning(message)
            self._quiet_since = now
        elif not self._logged:
            _log.info(message)
        self._logged = True


class EvaluationListener(CheckpointSaverListener):
    """Evaluates after checkpoints, while training waits.

    Args:
        evaluator: Evaluates the newest checkpoint.
        throttle_secs: The least time between two evaluations, in seconds.
        listener: Called around each evaluation.
        every_steps: The least number of steps between two, instead of a time; 0 evaluates the last step only.
        right: The right to evaluate, for a task that has it until an evaluator comes; None for one that
            always evaluates.

    Attributes:
        eval_result: The result of the last evaluation; None before the first.
        export_results: The results of the exporters after it.
        heard_of_saves: Whether training has saved a checkpoint.

    Source: ``_NewCheckpointListenerForEvaluate`` (tensorflow_estimator/python/estimator/training.py).
    """

    def __init__(
        self,
        evaluator: Evaluator,
        throttle_secs: float,
        listener: ContinuousEvalListener,
        every_steps: int | None = None,
        right: UntilEvaluator | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._right = right
        self._throttle_secs = throttle_secs
        self._every_steps = every_steps
        self._listener = listener
        self.eval_result: EvalResult | None = None
        self.export_results: list[Any] | None = None
        self.begin()

    def begin(self) -> None:
        self._timer = (
            SecondOrStepTimer(every_steps=self._every_steps)
            if self._every_steps
            else SecondOrStepTimer(every_secs=self._throttle_secs)
        )
        self._evaluated_step: int | None = None
        self.heard_of_saves = False

    def after_save(self, session: Session | None, global_step_value: int) -> bool | None:
        """Evaluate if it is due. Returns True to stop training, if the listener asks for it."""
        if not self.heard_of_saves:  # The model is not trained yet.
            self.heard_of_saves = True
            return None
        if not self._listener.before_eval():
            _log.info(
                "Exiting training and evaluation loop, as requested by _ContinuousEvalListener.before_eval."
            )
            return True
        if self._every_steps == 0:
            return None
        if not self._timer.should_trigger_for_step(global_step_value):
            if self._every_steps is None:
                _log.info(
                    "Skip the current checkpoint eval due to throttle secs (%s secs).", self._throttle_secs
                )
            return None
        if not self._evaluate(global_step_value):
            _log.info("Exiting evaluation, as requested by _ContinuousEvalListener.after_eval.")
            return True
        return None

    def end(self, session: Session | None, global_step_value: int) -> None:
        """Evaluate the last step, if it has not been evaluated."""
        if global_step_value != self._evaluated_step and self._listener.before_eval():
            self._evaluate(global_step_value, is_last=True)

    def _evaluate(self, global_step: int, *, is_last: bool = False) -> bool:
        """Evaluate and export, if this task does; returns False if the listener asks to stop."""
        if self._right is None:
            return self._evaluate_here(global_step)
        with self._right.taken(global_step, is_last=is_last) as is_taken:
            return self._evaluate_here(global_step) if is_taken else True

    def _evaluate_here(self, global_step: int) -> bool:
        self._timer.update_last_triggered_step(global_step)
        self._evaluated_step = global_step
        self.eval_result, self.export_results = self._evaluator.evaluate_and_export()
        if self.eval_result.status != EVALUATED:
            raise RuntimeError(
                f"There was no new checkpoint after the training. Eval status: {self.eval_result.status}"
            )
        return self._listener.after_eval(self.eval_result)


def is_final(metrics: Mapping[str, Any], max_steps: int | None) -> bool:
    """Return whether the evaluated checkpoint has reached ``max_steps``."""
    return max_steps is not None and bool(metrics["global_step"] >= max_steps)
