"""Strategies: place state, reduce gradients and split input.

To import this package lets ``fit``, ``evaluate`` and ``predict`` of Keras models run under strategies.
"""

from muster import _keras as _keras  # first: Ctrl-C waits for it
from muster.distribute import coordinator as coordinator
from muster.distribute.fit._fit_callbacks import HParamsCallback as HParamsCallback
from muster.distribute.fit._sidecar_evaluator import Evaluation as Evaluation
from muster.distribute.fit._sidecar_evaluator import SidecarEvaluator as SidecarEvaluator
from muster.distribute.functions._function import function as function
from muster.distribute.input._dataset_creator import DatasetCreator as DatasetCreator
from muster.distribute.input._distributed_dataset import DistributedDataset as DistributedDataset
from muster.distribute.input._distributed_dataset import DistributedIterator as DistributedIterator
from muster.distribute.input._input_context import InputContext as InputContext
from muster.distribute.input._input_options import InputOptions as InputOptions
from muster.distribute.input._input_options import InputReplicationMode as InputReplicationMode
from muster.distribute.replicas._replica_context import ReduceOp as ReduceOp
from muster.distribute.replicas._replica_context import ReplicaContext as ReplicaContext
from muster.distribute.replicas._sharded_variable import ShardedVariable as ShardedVariable
from muster.distribute.replicas._values import PerReplica as PerReplica
from muster.distribute.replicas._values import ValueContext as ValueContext
from muster.distribute.servers._server import Server as Server
from muster.distribute.strategies._asynchronous import AsynchronousStrategy as AsynchronousStrategy
from muster.distribute.strategies._central_storage import CentralStorageStrategy as CentralStorageStrategy
from muster.distribute.strategies._communication import (
    CommunicationImplementation as CommunicationImplementation,
)
from muster.distribute.strategies._communication import CommunicationOptions as CommunicationOptions
from muster.distribute.strategies._default import experimental_set_strategy as experimental_set_strategy
from muster.distribute.strategies._default import get_replica_context as get_replica_context
from muster.distribute.strategies._default import get_strategy as get_strategy
from muster.distribute.strategies._default import has_strategy as has_strategy
from muster.distribute.strategies._default import in_cross_replica_context as in_cross_replica_context
from muster.distribute.strategies._mirrored import CrossDeviceOps as CrossDeviceOps
from muster.distribute.strategies._mirrored import (
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
)
from muster.distribute.strategies._mirrored import MirroredStrategy as MirroredStrategy
from muster.distribute.strategies._mirrored import NcclAllReduce as NcclAllReduce
from muster.distribute.strategies._mirrored import ReductionToOneDevice as ReductionToOneDevice
from muster.distribute.strategies._multi_worker_mirrored import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from muster.distribute.strategies._one_device import OneDeviceStrategy as OneDeviceStrategy
from muster.distribute.strategies._parameter_server import (
    ParameterServerStrategyV1 as ParameterServerStrategyV1,
)
from muster.distribute.strategies._parameter_server_v2 import (
    ParameterServerStrategy as ParameterServerStrategy,
)
from muster.distribute.strategies._strategy import Strategy as Strategy
from muster.distribute.strategies._tpu import TPUStrategy as TPUStrategy
from muster.lifecycle import embedded as embedded
from muster.lifecycle import preempt as preempt
from muster.program import GradientTape as GradientTape
from muster.program import IndexedSlices as IndexedSlices
from muster.ps import FixedShardsPartitioner as FixedShardsPartitioner
from muster.ps import MaxSizePartitioner as MaxSizePartitioner
from muster.ps import MinSizePartitioner as MinSizePartitioner
from muster.ps import Partitioner as Partitioner
