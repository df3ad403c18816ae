"""A hook that reads values at the end of a session."""

from typing import Any

from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.session._fetches import Fetches
from muster.estimator.session._session import Coordinator, Session


class FinalOpsHook(SessionRunHook):
    """Reads variables, or outputs of the last step, at a clean stop.

    TensorFlow's hook runs operations; here nothing is computed anew.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``FinalOpsHook``.
    """

    def __init__(self, final_ops: Fetches, final_ops_feed_dict: None = None) -> None:
        """Choose the values.

        Args:
            final_ops: Names or handles, in any nest of dict, list and tuple; None for nothing.
            final_ops_feed_dict: None: there are no placeholders to feed.
        """
        self._final_ops = final_ops
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """NumPy values in the structure of the fetches; None before the end."""
        return self._values

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Refuse unknown names before the first step."""
        session.require(self._final_ops)

    def end(self, session: Session) -> None:
        """Read the values."""
        if self._final_ops is not None:
            self._values = session.run(self._final_ops)
