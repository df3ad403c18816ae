"""One strategy a file: each chooses workers, a placement and an engine."""

from muster.distribute.strategies._central_storage import CentralStorageStrategy as CentralStorageStrategy
from muster.distribute.strategies._communication import (
    CommunicationImplementation as CommunicationImplementation,
)
from muster.distribute.strategies._communication import CommunicationOptions as CommunicationOptions
from muster.distribute.strategies._cross_device_ops import CrossDeviceOps as CrossDeviceOps
from muster.distribute.strategies._cross_device_ops import (
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
)
from muster.distribute.strategies._cross_device_ops import NcclAllReduce as NcclAllReduce
from muster.distribute.strategies._cross_device_ops import ReductionToOneDevice as ReductionToOneDevice
from muster.distribute.strategies._default import get_replica_context as get_replica_context
from muster.distribute.strategies._default import get_strategy as get_strategy
from muster.distribute.strategies._default import has_strategy as has_strategy
from muster.distribute.strategies._default import in_cross_replica_context as in_cross_replica_context
from muster.distribute.strategies._default import strategy_of as strategy_of
from muster.distribute.strategies._mirrored import MirroredStrategy as MirroredStrategy
from muster.distribute.strategies._multi_worker_mirrored import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from muster.distribute.strategies._one_device import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute.strategies._one_device import device_of as device_of
from muster.distribute.strategies._programs import compile_program as compile_program
from muster.distribute.strategies._programs import start_program as start_program
from muster.distribute.strategies._strategy import Strategy as Strategy
from muster.distribute.strategies._strategy import current_strategy as current_strategy
from muster.distribute.strategies._tpu import TPUStrategy as TPUStrategy
