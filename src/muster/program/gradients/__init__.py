"""Gradients, tapes, and optimizers' updates in traced code."""

from muster.program.gradients._optimize import penalties as penalties
