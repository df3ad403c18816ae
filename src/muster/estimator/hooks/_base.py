"""What every hook is made of: the hook itself, what it may ask for, and what it gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.estimator.session._fetches import Fetches
from muster.estimator.session._session import Coordinator, Session
from muster.program import Output, output_of


class SessionRunArgs(NamedTuple):
    """What a hook asks of the coming run.

    Args:
        fetches: Names or handles of outputs of the step, or paths of variables, in any nest of dict,
            list and tuple. Names are those that model_fn gave, and always ``loss`` and ``global_step``.
        feed_dict: Must stay None. A compiled step reads its batch and nothing else.
        options: Must stay None.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunArgs``.
    """

    fetches: Fetches
    feed_dict: None = None
    options: None = None


class SessionRunValues(NamedTuple):
    """What a hook gets after a run.

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
    """What a hook sees of the run that is about to happen, or has just happened.

    One context serves all runs of a session.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunContext``.
    """

    __slots__ = ("original_args", "session")

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        """Tie the context to its session.

        Args:
            original_args: What the loop itself fetches.
            session: The session that runs.
        """
        self.original_args = original_args
        self.session = session

    @property
    def stop_requested(self) -> bool:
        """Whether someone asked the loop to stop."""
        return self.session.should_stop()

    def request_stop(self) -> None:
        """Let this run be the last."""
        self.session.coord.request_stop()


class SessionRunHook:
    """Called at the edges of a session and around each run; subclasses override what they need.

    The order is ``begin``, ``after_create_session``, then for each run ``before_run`` and ``after_run``, and
    on a clean stop ``end``. Within each, hooks are called in the order in which they were given.

    A method that a subclass does not override costs nothing in a run. Reading a value of the step that has
    just been dispatched waits for the device: ask only when you need it. ``context.session.run(fetches)``
    in ``after_run`` reads values of the step, so that a hook that rarely reads needs no ``before_run``.

    Source: tensorflow/python/training/session_run_hook.py, ``SessionRunHook``; ``interrupted`` is ours.
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
        """After how many more steps ``after_run`` is to be called with that very step.

        Only asked with ``RunConfig(steps_per_execution=...)``: then no more steps than that are made in the
        next run. ``after_run`` is called after each run, however many steps it was.

        Args:
            session: Where it stands now.

        Returns:
            At least 1, which every hook says that does not override this; None if any run will do.
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


def as_fetch(value: Any, default_name: str) -> str | Output:
    """What a hook keeps of a value that it shall read later.

    Args:
        value: A name, a handle, or a value of the step that is being traced, as in
            ``LoggingTensorHook({"loss": loss}, ...)`` within a model_fn.
        default_name: The name for such a value if it has none yet.

    Returns:
        The name or handle.

    Raises:
        TraceError: The value is neither a name nor a handle, and no step is being traced.
    """
    return value if isinstance(value, str | Output) else output_of(value, default_name)


def fetch_name(fetch: str | Output) -> str:
    """The name that a name or handle stands for."""
    return fetch if isinstance(fetch, str) else fetch.name


def as_named_fetches(tensors: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> dict[str, str | Output]:
    """Tags and what to read for them; a list is tagged with its names, a mapping is sorted by tag.

    Args:
        tensors: Tag -> name, handle or traced value; or a list of those.

    Returns:
        Tag -> name or handle, in the order in which to show them.
    """
    if isinstance(tensors, Mapping):
        return {tag: as_fetch(tensors[tag], tag) for tag in sorted(tensors)}
    fetches = [as_fetch(tensor, f"tensor_{index}") for index, tensor in enumerate(tensors)]
    return {fetch_name(fetch): fetch for fetch in fetches}
