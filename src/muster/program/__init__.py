"""Tracing: user code, with the Keras variables that it creates, becomes a pure step over state."""

from muster.program._eager import functions_run_eagerly as functions_run_eagerly
from muster.program._eager import run_functions_eagerly as run_functions_eagerly
from muster.program._gradients import gradients as gradients
from muster.program._meeting import Part as Part
from muster.program._meeting import meet as meet
from muster.program._meeting import parts_of as parts_of
from muster.program._optimize import TrainOp as TrainOp
from muster.program._optimize import add_penalty as add_penalty
from muster.program._optimize import apply_gradients as apply_gradients
from muster.program._optimize import get_or_create_global_step as get_or_create_global_step
from muster.program._optimize import minimize as minimize
from muster.program._optimize import penalties as penalties
from muster.program._optimize import trainable_variables as trainable_variables
from muster.program._outputs import Output as Output
from muster.program._outputs import name_output as name_output
from muster.program._outputs import output_of as output_of
from muster.program._outputs import reserve_outputs as reserve_outputs
from muster.program._outputs import summary_scalar as summary_scalar
from muster.program._program import Program as Program
from muster.program._reduce import common_value as common_value
from muster.program._reduce import replica_weight as replica_weight
from muster.program._reduce import synchronize_metrics as synchronize_metrics
from muster.program._replicas import Replicas as Replicas
from muster.program._replicas import packs as packs
from muster.program._tape import GradientTape as GradientTape
from muster.program._variables import VariableSpec as VariableSpec
