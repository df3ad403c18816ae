"""Gradients, tapes, and optimizers' updates in traced code."""

from muster.program.gradients._optimize import penalties as penalties
from muster.program.gradients._optimizers_of_steps import copies_of as copies_of
from muster.program.gradients._optimizers_of_steps import count_updates as count_updates
from muster.program.gradients._optimizers_of_steps import counter_of as counter_of
from muster.program.gradients._optimizers_of_steps import in_this_step as in_this_step
from muster.program.gradients._resolve import BatchedGradientError as BatchedGradientError
from muster.program.gradients._resolve import with_gradients as with_gradients
from muster.program.gradients._shard_gradients import shard_of as shard_of
from muster.program.gradients._shard_gradients import whole_arrays as whole_arrays
from muster.program.gradients._shard_gradients import whole_gradients as whole_gradients
from muster.program.gradients._tape_trace import computing as computing
from muster.program.gradients._tape_trace import is_tape_open as is_tape_open
from muster.program.gradients._tape_trace import is_tracing as is_tracing
