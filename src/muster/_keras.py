"""Keras on the JAX backend: the one place that imports it.

Keras chooses its backend when it is first imported, from ``KERAS_BACKEND``, and without it takes
TensorFlow. This module sets the variable when the user has not, which is the only write to the
environment in the library: Keras offers no other way.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras

if keras.backend.backend() != "jax":
    raise ImportError(
        f"muster trains on JAX, but Keras was imported with the backend {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=jax, or import muster before keras."
    )

__all__ = ["keras"]
