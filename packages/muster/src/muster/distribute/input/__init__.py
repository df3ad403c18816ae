"""Divides datasets among workers and replicas."""

from muster.distribute.input._step_source import BatchNumbers as BatchNumbers
from muster.distribute.input._step_source import StepSource as StepSource
from muster.distribute.input._synchronized_batches import synchronized as synchronized
