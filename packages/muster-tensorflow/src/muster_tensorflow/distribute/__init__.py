"""``tf.distribute``: strategies, and resolvers that find the tasks of a job."""

from muster import distribute as _distribute
from muster.distribute import CrossDeviceOps as CrossDeviceOps
from muster.distribute import DistributedDataset as DistributedDataset
from muster.distribute import DistributedIterator as DistributedIterator
from muster.distribute import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from muster.distribute import InputContext as InputContext
from muster.distribute import InputOptions as InputOptions
from muster.distribute import InputReplicationMode as InputReplicationMode
from muster.distribute import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from muster.distribute import NcclAllReduce as NcclAllReduce
from muster.distribute import ParameterServerStrategy as ParameterServerStrategy
from muster.distribute import ReduceOp as ReduceOp
from muster.distribute import ReductionToOneDevice as ReductionToOneDevice
from muster.distribute import ReplicaContext as ReplicaContext
from muster.distribute import Server as Server
from muster.distribute import Strategy as Strategy
from muster.distribute import TPUStrategy as TPUStrategy
from muster.distribute import coordinator as _coordinator
from muster.distribute import experimental_set_strategy as experimental_set_strategy
from muster.distribute import get_replica_context as get_replica_context
from muster.distribute import get_strategy as get_strategy
from muster.distribute import has_strategy as has_strategy
from muster.distribute import in_cross_replica_context as in_cross_replica_context
from muster_tensorflow.distribute import cluster_resolver as cluster_resolver
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2.checkpoints._preemption import (
    PreemptionCheckpointHandler as _PreemptionCheckpointHandler,
)
from muster_tensorflow.programs.v2.checkpoints._preemption import TerminationConfig as _TerminationConfig
from muster_tensorflow.programs.v2.devices._multi_worker import (
    ExperimentalMultiWorkerMirroredStrategy as _ExperimentalStrategy,
)
from muster_tensorflow.programs.v2.devices._multi_worker import collective_hints as _collective_hints
from muster_tensorflow.programs.v2.devices._run_options import RunOptions as RunOptions
from muster_tensorflow.programs.v2.devices._soft_placement import MirroredStrategy as MirroredStrategy
from muster_tensorflow.programs.v2.devices._soft_placement import OneDeviceStrategy as OneDeviceStrategy
from muster_tensorflow.programs.v2.devices._strategy_extended import StrategyExtended as StrategyExtended

DistributedValues = _distribute.PerReplica
coordinator = _Names(
    "tf.distribute.coordinator",
    ClusterCoordinator=_coordinator.ClusterCoordinator,
    PerWorkerValue=_coordinator.PerWorkerValues,  # TensorFlow has both names
    RemoteValue=_coordinator.RemoteValue,
    experimental_get_current_worker_index=_coordinator.experimental_get_current_worker_index,
)
_experimental_coordinator = _Names(
    "tf.distribute.experimental.coordinator",
    ClusterCoordinator=_coordinator.ClusterCoordinator,
    PerWorkerValues=_coordinator.PerWorkerValues,
    RemoteValue=_coordinator.RemoteValue,
)
_partitioners = _Names(
    "tf.distribute.experimental.partitioners",
    FixedShardsPartitioner=_distribute.FixedShardsPartitioner,
    MaxSizePartitioner=_distribute.MaxSizePartitioner,
    MinSizePartitioner=_distribute.MinSizePartitioner,
    Partitioner=_distribute.Partitioner,
)
experimental = _Names(
    "tf.distribute.experimental",
    CentralStorageStrategy=_distribute.CentralStorageStrategy,
    CollectiveCommunication=_distribute.CommunicationImplementation,
    CollectiveHints=_collective_hints,
    CommunicationImplementation=_distribute.CommunicationImplementation,
    CommunicationOptions=_distribute.CommunicationOptions,
    MultiWorkerMirroredStrategy=_ExperimentalStrategy,
    ParameterServerStrategy=ParameterServerStrategy,
    PreemptionCheckpointHandler=_PreemptionCheckpointHandler,
    TPUStrategy=TPUStrategy,
    TerminationConfig=_TerminationConfig,
    ValueContext=_distribute.ValueContext,
    coordinator=_experimental_coordinator,
    partitioners=_partitioners,
)
