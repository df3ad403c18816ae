"""Values in TensorFlow's operations: NumPy stays NumPy, everything else is JAX.

Input functions work on NumPy values, whose dtypes must be respected (JAX has no 64-bit types unless told);
a step works on arrays that are being traced. So an operation follows its arguments.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from muster._keras import keras

Array: TypeAlias = Any
"""A NumPy or JAX array, or one that is being traced."""
Tensor = np.ndarray | jax.Array
"""What TensorFlow's programs ask for with ``isinstance``."""
ArrayLike: TypeAlias = Any
"""An array, a ``keras.Variable``, a Python number, or nested lists of numbers."""
DTypeLike: TypeAlias = Any
"""A NumPy dtype or what makes one; ``tf.float32`` and the others are NumPy dtypes."""
Axis: TypeAlias = int | Sequence[int] | None


def array_module(*values: ArrayLike) -> ModuleType:
    """NumPy if all values are NumPy's or Python's, else ``jax.numpy``."""
    on_host = not any(isinstance(value, jax.Array | keras.Variable) for value in values)
    return np if on_host else jnp


def is_traced(*values: Array) -> bool:
    """Whether a program is being traced: if one of the values is of it, or what is computed here would be."""
    return any(isinstance(value, jax.core.Tracer) for value in (*values, jnp.zeros(())))


def as_array(value: ArrayLike, dtype: DTypeLike = None) -> Array:
    """A value as an array.

    Args:
        value: anything; Python numbers become int32 and float32, as in TensorFlow.
        dtype: what the array shall have; None leaves it. JAX arrays take the closest that JAX has.
    """
    if isinstance(value, keras.Variable):
        value = value.value
    if isinstance(value, jax.Array):
        return value if dtype is None else value.astype(jax.dtypes.canonicalize_dtype(dtype))
    if isinstance(value, list | tuple) and array_module(*value) is jnp:
        return as_array(jnp.stack([as_array(item) for item in value]), dtype)
    typed = isinstance(value, np.ndarray | np.generic)
    array = np.asarray(value, dtype=dtype)
    if not typed and dtype is None:
        array = _narrowed(array)
    return array


def as_arrays(*values: ArrayLike) -> list[Array]:
    """Several operands of one operation: what is written in Python takes the dtype of an array beside it."""
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    if not dtypes:
        return [as_array(value) for value in values]
    return [
        value
        if isinstance(value, bool | int | float)
        else as_array(value, dtypes[0] if isinstance(value, list | tuple) else None)
        for value in values
    ]


def as_axis(axis: ArrayLike) -> Any:
    """An axis or several of them as NumPy takes them."""
    return tuple(int(each) for each in axis) if isinstance(axis, list | tuple | np.ndarray) else axis


def _narrowed(array: Array) -> Array:
    match array.dtype.name:
        case "float64":
            return array.astype(np.float32)
        case "int64" if np.abs(array).max(initial=0) <= np.iinfo(np.int32).max:
            return array.astype(np.int32)
        case _:
            return array
