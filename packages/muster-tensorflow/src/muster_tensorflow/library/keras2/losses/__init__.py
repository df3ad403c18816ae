"""Keras 2's losses and metrics, and the results that they give."""
