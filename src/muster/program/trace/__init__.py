"""Trace user code into a program: a pure step over state."""
