"""``tf.experimental.numpy``: JAX's NumPy."""

from typing import Any

import jax.numpy as _jnp

from muster.compat._names import passed_on as _passed_on
from muster.compat.ops._numpy_random import enable_numpy_behavior as _enable_numpy_behavior
from muster.compat.tensorflow.experimental.numpy import random as random

experimental_enable_numpy_behavior = _enable_numpy_behavior


def __getattr__(name: str) -> Any:
    return _passed_on(_jnp, __name__, name, "experimental_enable_numpy_behavior", "random")
