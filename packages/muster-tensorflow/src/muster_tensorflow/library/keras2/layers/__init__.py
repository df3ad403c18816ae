"""Keras 2's ways to build, call and name layers."""
