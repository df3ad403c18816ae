"""``tf.contrib.distribute``."""

from muster.distribute import CrossDeviceOps as CrossDeviceOps
from muster.distribute import ReductionToOneDevice as ReductionToOneDeviceCrossDeviceOps
from muster.distribute import get_replica_context as get_replica_context
from muster.distribute import get_replica_context as get_tower_context
from muster.estimator import DistributeConfig as DistributeConfig
from muster_tensorflow.library.contrib.distribute import AllReduceCrossDeviceOps as AllReduceCrossDeviceOps
from muster_tensorflow.library.contrib.distribute import AllReduceCrossDeviceOps as AllReduceCrossTowerOps
from muster_tensorflow.library.contrib.distribute import (
    CollectiveAllReduceStrategy as CollectiveAllReduceStrategy,
)
from muster_tensorflow.library.contrib.distribute import MirroredStrategy as MirroredStrategy
from muster_tensorflow.library.contrib.distribute import OneDeviceStrategy as OneDeviceStrategy
from muster_tensorflow.library.contrib.distribute import ParameterServerStrategy as ParameterServerStrategy
from muster_tensorflow.library.contrib.distribute import TPUStrategy as TPUStrategy
