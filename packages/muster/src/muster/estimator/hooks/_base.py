"""The base class of hooks, and the arguments and values of their methods."""

from typing import Any, NamedTuple

from muster.estimator.session._fetches import Fetches
from muster.estimator.session._session import Coordinator, Session


class SessionRunArgs(NamedTuple):
    """The values that a hook reads after the coming run.

    Args:
        fetches: Names or handles of outputs of the step, or paths of variables, in any nest of dict,
            list and tuple. Names are those that model_fn gave, and always ``loss`` and ``global_step``.
        feed_dict: Must stay None. A compiled step reads its batch and nothing else.
        options: Must stay None.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunArgs``.

    Example:
        ```python
        class KeptLosses(muster.estimator.SessionRunHook):
            def __init__(self):
                self.seen = []

            def before_run(self, run_context):
                return muster.estimator.SessionRunArgs({"loss": "loss"})

            def after_run(self, run_context, run_values):
                self.seen.append(float(run_values.results["loss"]))

        losses = KeptLosses()
        regressor = muster.estimator.LinearRegressor([muster.feature_column.numeric_column("x")])
        rows = Dataset.from_tensor_slices(({"x": np.ones(4)}, np.ones(4))).repeat().batch(4)
        regressor.train(lambda: rows, steps=2, hooks=[losses])
        assert len(losses.seen) == 2
        ```
    """

    fetches: Fetches
    feed_dict: None = None
    options: None = None


class SessionRunValues(NamedTuple):
    """The values that a hook asked for, read after the run.

    Args:
        results: NumPy values in the structure of the fetches; None where nothing was asked for.
        options: Always None.
        run_metadata: Always None.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunValues``.
    """

    results: Any
    options: None = None
    run_metadata: None = None


class SessionRunContext:
    """The session of the run that is about to happen, or has just happened.

    One context serves all runs of a session.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunContext``.
    """

    __slots__ = ("original_args", "session")

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        """Tie the context to its session.

        Args:
            original_args: The fetches of the loop itself.
            session: The session that runs.
        """
        self.original_args = original_args
        self.session = session

    @property
    def stop_requested(self) -> bool:
        """True if a stop was requested."""
        return self.session.should_stop()

    def request_stop(self) -> None:
        """Let this run be the last."""
        self.session.coord.request_stop()


class SessionRunHook:
    """Called at the beginning and end of a session, and around each run; subclasses override methods.

    The order is ``begin``, ``after_create_session``, then for each run ``before_run`` and ``after_run``, and
    on a clean stop ``end``. Each is called on all hooks in their order.

    A method that a subclass does not override costs nothing in a run. Reading a value of the step waits for
    the device, so read only what you need, when you need it: a hook that rarely reads calls
    ``run_context.session.run(fetches)`` in ``after_run``, rather than fetching in each ``before_run``.

    A hook that counts, or remembers a best value, begins anew in a new program. One that has ``get_state()``
    and ``set_state(state)`` goes on: each checkpoint of a training has what ``get_state`` returns, a nest of
    lists, tuples and dicts of numbers, texts and small arrays, and a training that goes on from it calls
    ``set_state`` with that, after ``begin`` and before ``after_create_session``. On several workers all get
    the chief's. Such hooks are called before the one that saves, so that a checkpoint has their state
    after its step.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunHook``; ``interrupted``,
    ``steps_until_due`` and states are muster's.

    Example:
        ```python
        class Losses(muster.estimator.SessionRunHook):
            def before_run(self, run_context):
                return muster.estimator.SessionRunArgs("loss")

            def after_run(self, run_context, run_values):
                print(run_context.session.global_step, float(run_values.results))
        ```
    """

    def begin(self) -> None:
        """Called once, before the session exists."""

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Called once variables hold their initial or restored values.

        Args:
            session: The session of this training or evaluation.
            coord: ``coord.request_stop()`` ends the session before its first run.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run.

        Args:
            run_context: Gives the session, and takes a request to stop after this run.

        Returns:
            What to read once the run is done, or None.
        """
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that did not fail.

        Args:
            run_context: As in ``before_run``.
            run_values: What ``before_run`` asked for.
        """

    def steps_until_due(self, session: Session) -> int | None:
        """Return after how many more steps ``after_run`` must be called.

        Only used with ``RunConfig(steps_per_execution=...)``: the next run makes no more steps than that.
        ``after_run`` is called after each run, of however many steps.

        Args:
            session: The session, before that run.

        Returns:
            At least 1, which is the default; None if any run will do.
        """
        return 1

    def end(self, session: Session) -> None:
        """Called at a clean stop, and not when an exception ends the session.

        Args:
            session: The session, still readable.
        """

    def interrupted(self, session: Session) -> None:
        """Called when Ctrl-C or SIGTERM ends the session, after its last run; ``end`` is not called then.

        Args:
            session: The session, still readable.
        """
