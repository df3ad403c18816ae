"""``tf.experimental.numpy``: JAX's NumPy."""

from typing import Any

import jax.numpy as _jnp

from muster.compat._names import passed_on as _passed_on
from muster.compat.tensorflow.experimental.numpy import random as random


def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Do nothing: arrays behave as NumPy's from the start."""


def __getattr__(name: str) -> Any:
    return _passed_on(_jnp, __name__, name, "experimental_enable_numpy_behavior", "random")
