"""``tf.distribute``: the strategies for one process."""

from muster.distribute import InputContext as InputContext
from muster.distribute import MirroredStrategy as MirroredStrategy
from muster.distribute import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from muster.distribute import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute import Strategy as Strategy
from muster.distribute import get_strategy as get_strategy
from muster.distribute import has_strategy as has_strategy
