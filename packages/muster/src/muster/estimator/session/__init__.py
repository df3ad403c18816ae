"""The session that hooks read: variables, outputs of the last step, the global step."""

from muster.estimator.session._session import Session as Session
