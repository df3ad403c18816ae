"""Convert the arguments of operations to arrays, and choose between NumPy and JAX.

Input functions work on NumPy arrays, whose dtypes must be kept (JAX has no 64-bit types by default); a step
works on arrays that are being traced. So an operation is NumPy's if all its arguments are NumPy arrays or
Python values, and JAX's if one is a JAX array or a variable.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.data import RaggedTensor, SparseTensor, TensorSpec
from muster.distribute import ShardedVariable
from muster.extend import is_tape_open, is_tracing
from muster_tensorflow.library.ops._tensor_proto import numbered_dtype
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError

Array: TypeAlias = np.ndarray[Any, Any] | jax.Array
"""A NumPy array, or a JAX array, which may be traced."""
ArrayLike: TypeAlias = Array | keras.Variable | ShardedVariable | bool | float | Sequence["ArrayLike"]
DTypeLike: TypeAlias = np.typing.DTypeLike | None
Axis: TypeAlias = int | Sequence[int] | None


_ON_DEVICE = (jax.Array, keras.Variable, ShardedVariable)


class ArrayModule(Protocol):
    """The functions that NumPy and ``jax.numpy`` have in common."""

    linalg: Any

    def __getattr__(self, name: str) -> Callable[..., Array]: ...


def array_module(*values: ArrayLike) -> ArrayModule:
    """Return NumPy if all values are NumPy's or Python's, else ``jax.numpy``."""
    on_host = not any(isinstance(value, _ON_DEVICE) for value in values)
    return cast(ArrayModule, np if on_host else jnp)


def apply(function: str, *values: Array | float, **options: object) -> Array:
    """Call NumPy's or JAX's function of this name, as `array_module` chooses."""
    sized = any(is_size(size) for option in options.values() if isinstance(option, tuple) for size in option)
    module = cast(ArrayModule, jnp) if sized else array_module(*values)
    result: Array = getattr(module, function)(*values, **options)
    return result


def is_size(value: object) -> bool:
    """Return whether a value is JAX's symbol for a size that is not known.

    While Keras asks a layer for the shapes of its results, batches have such sizes.
    """
    return jax.export.is_symbolic_dim(value)  # type: ignore[arg-type]  # any value may be asked


def eager_on_cpu(*values: ArrayLike) -> list[np.ndarray[Any, Any]] | None:
    """Return arrays of one dtype as NumPy's, if eager code has them on a CPU and no tape is open; else None.

    For what only moves elements NumPy is quicker: JAX compiles it for each shape, such as those of an array
    that grows in a loop.
    """
    if is_tape_open() or is_tracing():
        return None
    arrays = as_arrays(*values)
    if len({np.result_type(each) for each in arrays}) != 1 or any(map(_is_elsewhere, arrays)):
        return None
    return [np.asarray(each) for each in arrays]


def _is_elsewhere(array: Array | float) -> bool:
    return isinstance(array, jax.Array) and (
        not array.is_fully_addressable or {each.platform for each in array.devices()} != {"cpu"}
    )


def is_traced(*values: object) -> bool:
    """Return whether a value is traced, or any computation is being traced here."""
    return any(isinstance(value, jax.core.Tracer) for value in (*values, jnp.zeros(())))


def as_dtype(type_value: Any) -> np.dtype[Any]:
    """Return a NumPy type: of its name or number, of Python's or NumPy's class; that of text has no width.

    Source: tensorflow/python/framework/dtypes.py, ``as_dtype``.
    """
    named = numbered_dtype(type_value) if isinstance(type_value, int) else type_value
    named = np.float32 if isinstance(named, str) and named == "float" else named  # TensorFlow's, not NumPy's
    return TensorSpec((), named).dtype


def as_array(value: ArrayLike, dtype: DTypeLike = None) -> Array:
    """Convert a value to an array.

    Args:
        value: Any value; Python numbers become int32 and float32, as in TensorFlow.
        dtype: The array's dtype; None keeps the value's. JAX arrays take the closest that JAX has.

    Raises:
        ValueError: The value is None.
        TypeError: It is a ragged or a sparse tensor.
    """
    if value is None:
        raise ValueError("Got None where an array is needed. Are these labels that the input does not give?")
    if isinstance(dtype, str):
        dtype = as_dtype(dtype)
    if isinstance(value, keras.Variable | ShardedVariable):
        value = value.value
    if isinstance(value, RaggedTensor | SparseTensor):
        ragged = isinstance(value, RaggedTensor)
        raise TypeError(
            f"This operation takes no {'ragged' if ragged else 'sparse'} tensor. Make it an array by "
            f"{'to_tensor()' if ragged else 'tf.sparse.to_dense'} first."
        )
    if isinstance(value, jax.Array):
        return value if dtype is None else value.astype(jax.dtypes.canonicalize_dtype(dtype))
    if isinstance(value, list | tuple) and array_module(*value) is jnp:
        return as_array(jnp.stack([as_array(item) for item in value]), dtype)
    if dtype is not None and has_sizes(value):
        sizes = np.asarray(value, object)
        flat = [jnp.asarray(size, jax.dtypes.canonicalize_dtype(dtype)) for size in sizes.ravel()]
        return jnp.stack(flat).reshape(sizes.shape)
    typed = isinstance(value, np.ndarray | np.generic)
    array = np.asarray(value, dtype=dtype)
    if isinstance(value, bytes | list | tuple) and array.dtype.kind in "SU":
        return _with_zeros(value, array)
    return array if typed or dtype is not None else _narrowed(array)


def _with_zeros(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of bytes or text; one of objects if NumPy's own type has lost zeros at their ends."""
    objects = np.empty(array.shape, object)
    objects[()] = bytes(value) if isinstance(value, bytes) else value
    lost = any(isinstance(each, bytes) and each.endswith(b"\0") for each in objects.flat)
    return objects if lost else array


def as_arrays(*values: ArrayLike) -> list[Array | float]:
    """Convert the operands of an operation to arrays.

    If there is an array among them, lists take its dtype, and Python numbers stay as they are: NumPy and JAX
    give them the array's dtype.
    """
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    if not dtypes:
        return [as_array(value) for value in values]
    return [
        value
        if isinstance(value, bool | int | float)
        else as_array(value, dtypes[0] if isinstance(value, list | tuple) else None)
        for value in values
    ]


def as_axis(axis: Axis | np.ndarray[Any, Any]) -> int | tuple[int, ...] | None:
    """Convert one or more axes to the form that NumPy takes."""
    if axis is None or isinstance(axis, int):
        return axis
    return tuple(map(int, axis)) if np.ndim(axis) else int(axis)  # type: ignore[arg-type]


def as_shape(shape: object) -> tuple[Any, ...]:
    """Convert a shape to a tuple of Python's integers, and of sizes that are not known yet.

    Args:
        shape: A size, or a sequence or array of them.

    Raises:
        TraceError: A size is a value of a compiled function or of a step.
    """
    sizes: Any = shape
    return tuple(map(_as_size, sizes)) if np.ndim(sizes) else (_as_size(sizes),)


def _as_size(size: Any) -> Any:
    if isinstance(size, jax.core.Tracer):
        raise NeedsValuesError(
            "A shape has a size that a compiled step computes, but shapes are fixed when it is traced. Take "
            "sizes of the shapes of arrays, such as tf.shape(x)[0], or Python's int."
        )
    value = size.item() if isinstance(size, np.ndarray | jax.Array) else size
    return value if is_size(value) else int(value)


def has_sizes(value: object) -> bool:
    """Return whether a value is a size that is not known, or an array with one."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(is_size, value.ravel()))
    return is_size(value)


def _narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    match array.dtype.name:
        case "float64":
            return array.astype(np.float32)
        case "int64" if np.abs(array).max(initial=0) <= np.iinfo(np.int32).max:
            return array.astype(np.int32)
        case _:
            return array
