"""``tf.Variable``, and how the values that replicas give it combine."""

import enum
from typing import Any

import jax

from muster._keras import keras
from muster.compat.ops._arrays import ArrayLike, DTypeLike, as_array


class VariableSynchronization(enum.Enum):
    """When the values of replicas become one.

    Source: tensorflow/python/ops/variables.py, ``VariableSynchronization``.
    """

    AUTO = 0  # ON_WRITE
    NONE = 1  # never: refused where there are several replicas
    ON_WRITE = 2  # when replicas assign
    ON_READ = 3  # when code for all replicas reads: each has a value of its own


class VariableAggregation(enum.Enum):
    """How the values of replicas become one.

    Source: tensorflow/python/ops/variables.py, ``VariableAggregationV2``.
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def Variable(
    initial_value: ArrayLike,
    trainable: bool | None = None,
    name: str | None = None,
    dtype: DTypeLike = None,
    *,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """A variable: a ``keras.Variable``.

    Args:
        initial_value: an array, or a function without arguments that returns one.
        trainable: whether ``minimize`` takes it by default; None: unless it is synchronized ON_READ.
        name: its name in checkpoints.
        dtype: None takes that of the value; Python numbers become int32 and float32, and so do 64-bit types
            unless ``jax_enable_x64`` is set.
        synchronization: when the values of replicas become one.
        aggregation: how they do.

    Raises:
        ValueError: The value is too large for int32.

    Source: tensorflow/python/ops/variables.py, ``Variable``.
    """
    given = as_array(initial_value() if callable(initial_value) else initial_value, dtype)
    value = given.astype(jax.dtypes.canonicalize_dtype(given.dtype))
    if given.dtype.kind in "iu" and not isinstance(given, jax.Array) and (value != given).any():
        raise ValueError(
            f"A variable of dtype {given.dtype} is one of {value.dtype} here, which {initial_value!r} is too "
            "large for: set jax_enable_x64."
        )
    return keras.Variable(
        value,
        dtype=str(value.dtype),
        trainable=synchronization is not VariableSynchronization.ON_READ if trainable is None else trainable,
        synchronization=synchronization.name.lower(),
        aggregation=aggregation.name.lower(),
        name=name,
    )
