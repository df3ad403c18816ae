"""Keras 2's ways to make, train, save and load models."""
