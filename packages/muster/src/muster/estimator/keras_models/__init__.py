"""Estimators of compiled Keras models."""
