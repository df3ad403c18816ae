"""Compiles traced code into steps, for one device, a mesh, or several processes."""

from muster.distribute.engine._compiled import CompiledStep as CompiledStep
from muster.distribute.engine._rows_in_files import StepOnRows as StepOnRows
from muster.distribute.engine._served import NoMoreSteps as NoMoreSteps
from muster.distribute.engine._served import ServedState as ServedState
from muster.distribute.engine._split import ReplicatedBatch as ReplicatedBatch
from muster.distribute.engine._split import UnevenBatch as UnevenBatch
from muster.distribute.engine._split import unwrapped as unwrapped
from muster.distribute.engine._state_store import StateStore as StateStore
from muster.distribute.engine._traced import BatchGroup as BatchGroup
from muster.distribute.engine._traced import Executables as Executables
from muster.distribute.engine._traced import Reads as Reads
from muster.distribute.engine._traced import State as State
from muster.distribute.engine._traced import Step as Step
