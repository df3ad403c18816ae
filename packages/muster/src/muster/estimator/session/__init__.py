"""The session that hooks read: variables, outputs of the last step, the global step."""

from muster.estimator.session._fetches import Fetches as Fetches
from muster.estimator.session._fetches import map_fetches as map_fetches
from muster.estimator.session._session import Coordinator as Coordinator
from muster.estimator.session._session import Initializer as Initializer
from muster.estimator.session._session import Session as Session
from muster.estimator.session._session import initialized as initialized
