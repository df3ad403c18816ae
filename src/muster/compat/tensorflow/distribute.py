"""``tf.distribute``: the strategies, and the resolvers that say who is in the job."""

from muster.compat import _cluster_resolver
from muster.distribute import InputContext as InputContext
from muster.distribute import MirroredStrategy as MirroredStrategy
from muster.distribute import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from muster.distribute import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute import Strategy as Strategy
from muster.distribute import get_strategy as get_strategy
from muster.distribute import has_strategy as has_strategy

cluster_resolver = _cluster_resolver
