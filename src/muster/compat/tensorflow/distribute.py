"""``tf.distribute``: the strategies, and the resolvers that say who is in the job."""

from types import SimpleNamespace

from muster.compat import _cluster_resolver
from muster.distribute import CentralStorageStrategy, CommunicationImplementation, CommunicationOptions
from muster.distribute import CrossDeviceOps as CrossDeviceOps
from muster.distribute import DistributedDataset as DistributedDataset
from muster.distribute import DistributedIterator as DistributedIterator
from muster.distribute import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from muster.distribute import InputContext as InputContext
from muster.distribute import InputOptions as InputOptions
from muster.distribute import InputReplicationMode as InputReplicationMode
from muster.distribute import MirroredStrategy as MirroredStrategy
from muster.distribute import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from muster.distribute import NcclAllReduce as NcclAllReduce
from muster.distribute import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute import ReduceOp as ReduceOp
from muster.distribute import ReductionToOneDevice as ReductionToOneDevice
from muster.distribute import ReplicaContext as ReplicaContext
from muster.distribute import Strategy as Strategy
from muster.distribute import TPUStrategy as TPUStrategy
from muster.distribute import get_replica_context as get_replica_context
from muster.distribute import get_strategy as get_strategy
from muster.distribute import has_strategy as has_strategy
from muster.distribute import in_cross_replica_context as in_cross_replica_context

cluster_resolver = _cluster_resolver
experimental = SimpleNamespace(
    CentralStorageStrategy=CentralStorageStrategy,
    CommunicationImplementation=CommunicationImplementation,
    CommunicationOptions=CommunicationOptions,
    MultiWorkerMirroredStrategy=MultiWorkerMirroredStrategy,
    TPUStrategy=TPUStrategy,
)
