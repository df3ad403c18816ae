"""Let hooks feed the placeholders of an input, as in TensorFlow 1."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from muster.data import Dataset
from muster.estimator import SessionRunHook
from muster.extend import Coordinator, initialized
from muster_tensorflow.library.ops._one_shot import OneShotIterator


class _NotYet(Exception):
    """A hook has asked for more than there is before the first batch is read."""


class _FeedingSession:
    """Runs the initializers of iterators, and nothing else."""

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, **options: Any) -> Any:
        """Run initializers."""
        if not initialized(fetches, feed_dict):
            raise _NotYet

    def __getattr__(self, name: str) -> NoReturn:
        raise _NotYet


def let_hooks_feed(returned: Any, hooks: Sequence[SessionRunHook]) -> None:
    """Let hooks give values to the placeholders of a dataset, if there are any, before it is read.

    The first batch is read before there is a session. So ``after_create_session`` of each hook is called with
    one that runs the initializers of iterators, until a hook asks it for something else. It is called again,
    as always, once there is a session: the values that were given first stay.

    Args:
        returned: What an input_fn returned.
        hooks: The user's hooks.
    """
    if not isinstance(returned, Dataset) or OneShotIterator(returned).initializer.complete:
        return
    for hook in hooks:
        with suppress(_NotYet):
            hook.after_create_session(_FeedingSession(), Coordinator())  # type: ignore[arg-type]
