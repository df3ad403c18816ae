"""Keras 2's recurrent layers and cells."""
