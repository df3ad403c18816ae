"""Functions of Keras 2's ``backend``."""
