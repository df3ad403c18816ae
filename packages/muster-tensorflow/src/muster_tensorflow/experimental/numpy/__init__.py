"""``tf.experimental.numpy``: JAX's NumPy, whose functions take variables and symbolic tensors, too."""

import functools as _functools
from typing import Any

import jax.numpy as _jnp

from muster_tensorflow.experimental.numpy import random as random
from muster_tensorflow.library.ops._numpy_parameters import as_in_tensorflow as _as_in_tensorflow
from muster_tensorflow.library.ops._operation import operation as _operation
from muster_tensorflow.library.ops.random._numpy_random import enable_numpy_behavior as _enable_numpy_behavior
from muster_tensorflow.names._names import passed_on as _passed_on

experimental_enable_numpy_behavior = _enable_numpy_behavior


def __getattr__(name: str) -> Any:
    found = _passed_on(_jnp, __name__, name, "experimental_enable_numpy_behavior", "random")
    is_function = callable(found) and not isinstance(found, type) and hasattr(found, "__name__")
    return _as_operation(found) if is_function else found


_as_operation = _functools.cache(lambda function: _operation(_as_in_tensorflow(function)))
