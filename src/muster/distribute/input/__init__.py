"""Divides datasets among workers and replicas."""

from muster.distribute.input._batch_sources import GlobalBatches as GlobalBatches
from muster.distribute.input._batch_sources import ReplicaBatches as ReplicaBatches
from muster.distribute.input._batch_sources import datasets_from_function as datasets_from_function
from muster.distribute.input._distributed_dataset import DistributedDataset as DistributedDataset
from muster.distribute.input._distributed_dataset import DistributedIterator as DistributedIterator
from muster.distribute.input._input_context import InputContext as InputContext
from muster.distribute.input._input_options import InputOptions as InputOptions
from muster.distribute.input._input_options import InputReplicationMode as InputReplicationMode
from muster.distribute.input._synchronized_batches import synchronized as synchronized
