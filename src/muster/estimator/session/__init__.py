"""The session that hooks read: variables, outputs of the last step, the global step."""

from muster.estimator.session._fetches import Fetches as Fetches
from muster.estimator.session._session import Coordinator as Coordinator
from muster.estimator.session._session import Outputs as Outputs
from muster.estimator.session._session import SaveState as SaveState
from muster.estimator.session._session import Session as Session
