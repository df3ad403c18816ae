"""``tf.Variable``, and how values of replicas combine in it."""

import enum
from collections.abc import Callable

import jax

from muster._keras import keras
from muster.compat.ops._arrays import ArrayLike, DTypeLike, as_array


class VariableSynchronization(enum.Enum):
    """When the values of replicas are combined.

    Source: tensorflow/python/ops/variables.py, ``VariableSynchronization``.
    """

    AUTO = 0  # ON_WRITE
    NONE = 1  # never, so only on one replica
    ON_WRITE = 2  # when replicas assign
    ON_READ = 3  # when it is read in the cross-replica context; until then each replica has its value


class VariableAggregation(enum.Enum):
    """How the values of replicas are combined.

    Source: tensorflow/python/ops/variables.py, ``VariableAggregationV2``.
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def Variable(
    initial_value: ArrayLike | Callable[[], ArrayLike],
    trainable: bool | None = None,
    name: str | None = None,
    dtype: DTypeLike = None,
    *,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> keras.Variable:
    """Create a ``keras.Variable``.

    Args:
        initial_value: An array, or a function without arguments that returns one.
        trainable: Whether ``minimize`` trains it by default; None is True unless it is synchronized ON_READ.
        name: Its name in checkpoints.
        dtype: Its dtype; None takes that of the value. Python numbers become int32 and float32, and so do
            64-bit types unless ``jax_enable_x64`` is set.
        synchronization: When the values of replicas are combined.
        aggregation: How they are combined.

    Raises:
        ValueError: The value is too large for int32.

    Source: tensorflow/python/ops/variables.py, ``Variable``.
    """
    array = as_array(initial_value() if callable(initial_value) else initial_value, dtype)
    value = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    if array.dtype.kind in "iu" and not isinstance(array, jax.Array) and (value != array).any():
        raise ValueError(
            f"A variable of dtype {array.dtype} becomes one of {value.dtype}, which {initial_value!r} is too "
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
