"""The session that hooks read: variables, outputs of the last step, the global step."""

from muster.estimator.session._session import Coordinator as Coordinator
from muster.estimator.session._session import Initializer as Initializer
from muster.estimator.session._session import Session as Session
from muster.estimator.session._session import initialized as initialized
