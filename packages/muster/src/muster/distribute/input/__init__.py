"""Divides datasets among workers and replicas, and gives each step its batch."""

from muster.distribute.input._dispatched_input import DispatchedInput as DispatchedInput
from muster.distribute.input._own_input import OwnInput as OwnInput
from muster.distribute.input._own_input import Pipeline as Pipeline
from muster.distribute.input._step_input import Convert as Convert
from muster.distribute.input._step_input import Position as Position
from muster.distribute.input._step_input import StepInput as StepInput
from muster.distribute.input._step_source import BatchNumbers as BatchNumbers
from muster.distribute.input._step_source import StepSource as StepSource
from muster.distribute.input._synchronized_input import SynchronizedInput as SynchronizedInput
from muster.distribute.input._synchronized_input import synchronized as synchronized
