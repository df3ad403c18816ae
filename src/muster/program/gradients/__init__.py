"""Gradients, tapes, and optimizers' updates in traced code."""

from muster.program.gradients._gradients import gradients as gradients
from muster.program.gradients._gradients import resolve as resolve
from muster.program.gradients._optimize import TrainOp as TrainOp
from muster.program.gradients._optimize import add_penalty as add_penalty
from muster.program.gradients._optimize import apply_gradients as apply_gradients
from muster.program.gradients._optimize import get_or_create_global_step as get_or_create_global_step
from muster.program.gradients._optimize import minimize as minimize
from muster.program.gradients._optimize import penalties as penalties
from muster.program.gradients._optimize import trainable_variables as trainable_variables
from muster.program.gradients._tape import GradientTape as GradientTape
from muster.program.gradients._value_and_grad import value_and_grad as value_and_grad
