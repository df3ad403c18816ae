"""Bind Keras variables to state while code is traced."""
