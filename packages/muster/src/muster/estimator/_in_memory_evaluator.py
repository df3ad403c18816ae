"""A hook that evaluates in pauses of the training, without a checkpoint."""

from collections.abc import Iterable

from muster.estimator._estimator import Estimator
from muster.estimator._model_fn import InputFn
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._session import Coordinator, Session


class InMemoryEvaluatorHook(SessionRunHook):
    """Evaluates the values of a training, before its first step, every N steps and at its end.

    Nothing is written but the metrics, as summaries. ``train_and_evaluate`` evaluates checkpoints instead,
    also in jobs of several tasks.

    Source: tensorflow_estimator/python/estimator/hooks/hooks.py, ``InMemoryEvaluatorHook``.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        """Choose the input and the period.

        Args:
            estimator: The Estimator that is trained.
            input_fn: Returns the Dataset to evaluate on, as for ``Estimator.evaluate``.
            steps: How many batches to take each time; None takes all.
            hooks: Called around each batch.
            name: Tells evaluations on several data sets apart: the summaries go to ``eval_<name>``.
            every_n_iter: Period in steps of this training.

        Raises:
            TypeError: A hook is none.
            ValueError: The period is not positive, or this task is one of several.
        """
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if estimator.config.num_ps_replicas > 0 or estimator.config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluator supports only single machine (aka Local) setting. Use train_and_evaluate "
                "with an EvalSpec in a job of several tasks."
            )
        self._estimator = estimator
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = tuple(hooks or ())
        for hook in self._hooks:
            if not isinstance(hook, SessionRunHook):
                raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
        self._name = name
        self._timer = SecondOrStepTimer(every_steps=every_n_iter)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Evaluate what training starts from."""
        self._timer.reset()
        self._timer.update_last_triggered_step(session.steps_taken)
        self._evaluate(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Evaluate if it is due."""
        session = run_context.session
        if self._timer.should_trigger_for_step(session.steps_taken):
            self._timer.update_last_triggered_step(session.steps_taken)
            self._evaluate(session)

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.steps_taken)

    def end(self, session: Session) -> None:
        """Evaluate what training has come to."""
        self._evaluate(session)

    def _evaluate(self, session: Session) -> None:
        self._estimator.evaluate_session(session, self._input_fn, self._steps, self._hooks, self._name)
