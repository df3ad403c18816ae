"""``tf.compat.v1.Session``, for programs that make one to set options of TensorFlow's runtime.

They give it to ``tf.keras.backend.set_session``, or let it initialize variables, and train by Keras or by an
Estimator.
"""

from typing import Any, Self

import jax

from muster_tensorflow.library.ops._variable_methods import InitializerOp
from muster_tensorflow.names._hints import advice_for
from muster_tensorflow.programs.v1.sessions._session_config import ConfigProto


class Session:
    """Accepts options without effect. It runs initializers, which do nothing, and no graph: there is none.

    Args:
        target: Unused.
        graph: Unused.
        config: Unused.

    Raises:
        TypeError: `config` is no ``ConfigProto``.

    Source: tensorflow/python/client/session.py, ``Session``.
    """

    def __init__(self, target: str = "", graph: object = None, config: ConfigProto | None = None) -> None:
        if not isinstance(config, ConfigProto | None):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}.")

    def run(
        self, fetches: Any, feed_dict: object = None, options: object = None, run_metadata: object = None
    ) -> None:
        """Initialize what has values from the start.

        Args:
            fetches: What ``tf.global_variables_initializer()`` and its kin return, or a structure of these.
            feed_dict: Unused.
            options: Unused.
            run_metadata: Unused.

        Raises:
            NotImplementedError: There is something else to run.
        """
        for each in jax.tree.leaves(fetches):
            if not isinstance(each, InitializerOp):
                raise NotImplementedError(
                    f"A session runs initializers only, got {each!r}. {advice_for('tf.get_default_session')}"
                )

    def as_default(self) -> Self:
        """Return the session, for a ``with``."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


def set_session(session: Session) -> None:
    """Do nothing: a session has options of TensorFlow's runtime alone."""
