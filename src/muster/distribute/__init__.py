"""Strategies: place state, reduce gradients and split input.

To import this package lets ``fit``, ``evaluate`` and ``predict`` of Keras models run under strategies.
"""

from muster.distribute.engine import use_compilation_cache as use_compilation_cache
from muster.distribute.fit import DistributedTrainer as DistributedTrainer
from muster.distribute.functions import function as function
from muster.distribute.input import DistributedDataset as DistributedDataset
from muster.distribute.input import DistributedIterator as DistributedIterator
from muster.distribute.input import InputContext as InputContext
from muster.distribute.input import InputOptions as InputOptions
from muster.distribute.input import InputReplicationMode as InputReplicationMode
from muster.distribute.replicas import PerReplica as PerReplica
from muster.distribute.replicas import ReduceOp as ReduceOp
from muster.distribute.replicas import ReplicaContext as ReplicaContext
from muster.distribute.replicas import ValueContext as ValueContext
from muster.distribute.strategies import CentralStorageStrategy as CentralStorageStrategy
from muster.distribute.strategies import CommunicationImplementation as CommunicationImplementation
from muster.distribute.strategies import CommunicationOptions as CommunicationOptions
from muster.distribute.strategies import CrossDeviceOps as CrossDeviceOps
from muster.distribute.strategies import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from muster.distribute.strategies import MirroredStrategy as MirroredStrategy
from muster.distribute.strategies import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from muster.distribute.strategies import NcclAllReduce as NcclAllReduce
from muster.distribute.strategies import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute.strategies import ReductionToOneDevice as ReductionToOneDevice
from muster.distribute.strategies import Strategy as Strategy
from muster.distribute.strategies import TPUStrategy as TPUStrategy
from muster.distribute.strategies import get_replica_context as get_replica_context
from muster.distribute.strategies import get_strategy as get_strategy
from muster.distribute.strategies import has_strategy as has_strategy
from muster.distribute.strategies import in_cross_replica_context as in_cross_replica_context
