"""Branches, loops, assertions, gradients, and calls of Python."""
