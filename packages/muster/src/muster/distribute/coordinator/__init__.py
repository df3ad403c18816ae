"""The coordinator of a job with parameter servers: workers run functions for it."""

from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator as ClusterCoordinator
from muster.distribute.coordinator._per_worker import PerWorkerDataset as PerWorkerDataset
from muster.distribute.coordinator._per_worker import PerWorkerIterator as PerWorkerIterator
from muster.distribute.coordinator._per_worker_values import PerWorkerValues as PerWorkerValues
from muster.distribute.coordinator._remote_value import RemoteValue as RemoteValue
from muster.distribute.coordinator._remote_value import RemoteValueStatus as RemoteValueStatus
from muster.distribute.coordinator._traced_closure import (
    experimental_get_current_worker_index as experimental_get_current_worker_index,
)
