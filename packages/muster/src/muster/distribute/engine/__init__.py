"""Compiles traced code into steps, for one device, a mesh, or several processes."""

from muster.distribute.engine._compiled import CompiledStep as CompiledStep
from muster.distribute.engine._hashed_columns import HashedInitializer as HashedInitializer
from muster.distribute.engine._hashed_columns import SavedColumn as SavedColumn
from muster.distribute.engine._hashed_columns import hashed_initializer as hashed_initializer
from muster.distribute.engine._hashed_columns import is_hashed as is_hashed
from muster.distribute.engine._rows_in_files import StepOnRows as StepOnRows
from muster.distribute.engine._rows_in_files import with_tables as with_tables
from muster.distribute.engine._rows_in_files import without_tables as without_tables
from muster.distribute.engine._served_steps import NoMoreSteps as NoMoreSteps
from muster.distribute.engine._served_steps import ServedState as ServedState
from muster.distribute.engine._split import ReplicatedBatch as ReplicatedBatch
from muster.distribute.engine._split import UnevenBatch as UnevenBatch
from muster.distribute.engine._split import unwrapped as unwrapped
from muster.distribute.engine._state_store import StateStore as StateStore
from muster.distribute.engine._traced import BatchGroup as BatchGroup
from muster.distribute.engine._traced import Executables as Executables
from muster.distribute.engine._traced import Reads as Reads
from muster.distribute.engine._traced import State as State
from muster.distribute.engine._traced import Step as Step
