"""Trace user code, with the Keras variables that it uses, into a pure step over state."""

from muster import _keras as _keras  # first: Ctrl-C waits for it
from muster.program._indexed_slices import IndexedSlices as IndexedSlices
from muster.program._labels import check_ids as check_ids
from muster.program._labels import keepable as keepable
from muster.program._labels import label_factor as label_factor
from muster.program._labels import only_data_errors as only_data_errors
from muster.program._replicas import Gathers as Gathers
from muster.program._replicas import Replicas as Replicas
from muster.program._replicas import Shares as Shares
from muster.program._replicas import corrected as corrected
from muster.program.gradients._gradients import GradientTape as GradientTape
from muster.program.gradients._gradients import gradients as gradients
from muster.program.gradients._gradients import value_and_grad as value_and_grad
from muster.program.gradients._optimize import TrainOp as TrainOp
from muster.program.gradients._optimize import add_penalty as add_penalty
from muster.program.gradients._optimize import apply_gradients as apply_gradients
from muster.program.gradients._optimize import get_or_create_global_step as get_or_create_global_step
from muster.program.gradients._optimize import minimize as minimize
from muster.program.gradients._optimize import trainable_variables as trainable_variables
from muster.program.passes._gradient_markers import update_rows as update_rows
from muster.program.trace._eager import run_functions_eagerly as run_functions_eagerly
from muster.program.trace._outputs import Output as Output
from muster.program.trace._outputs import common_value as common_value
from muster.program.trace._outputs import name_output as name_output
from muster.program.trace._outputs import replica_weight as replica_weight
from muster.program.trace._outputs import summary_scalar as summary_scalar
from muster.program.trace._outputs import synchronize_metrics as synchronize_metrics
