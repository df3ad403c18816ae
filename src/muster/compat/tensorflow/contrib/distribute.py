"""``tf.contrib.distribute``."""

from muster.compat.v1.contrib.distribute import AllReduceCrossDeviceOps as AllReduceCrossDeviceOps
from muster.compat.v1.contrib.distribute import AllReduceCrossDeviceOps as AllReduceCrossTowerOps
from muster.compat.v1.contrib.distribute import CollectiveAllReduceStrategy as CollectiveAllReduceStrategy
from muster.compat.v1.contrib.distribute import MirroredStrategy as MirroredStrategy
from muster.compat.v1.contrib.distribute import OneDeviceStrategy as OneDeviceStrategy
from muster.compat.v1.contrib.distribute import ParameterServerStrategy as ParameterServerStrategy
from muster.compat.v1.contrib.distribute import TPUStrategy as TPUStrategy
from muster.distribute import CrossDeviceOps as CrossDeviceOps
from muster.distribute import ReductionToOneDevice as ReductionToOneDeviceCrossDeviceOps
from muster.distribute import get_replica_context as get_replica_context
from muster.distribute import get_replica_context as get_tower_context
from muster.estimator import DistributeConfig as DistributeConfig
