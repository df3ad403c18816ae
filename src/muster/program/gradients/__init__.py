"""Gradients, tapes, and optimizers' updates in traced code."""
