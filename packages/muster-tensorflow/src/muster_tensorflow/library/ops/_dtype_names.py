"""Give NumPy's dtypes TensorFlow's attributes, such as ``tf.float32.max`` and ``x.dtype.is_floating``.

``tf.float32`` is NumPy's dtype, as the dtype of every array here is; a class of our own would be none that
JAX and Keras compare with theirs. The attributes are new names, which NumPy does not have.

Source: tensorflow/python/framework/dtypes.py, ``DType``.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from muster_tensorflow.patches import change, change_item

# TensorFlow's numbers of dtypes.
_NUMBERS = {
    name: number
    for number, name in enumerate(
        "float32 float64 int32 uint8 int16 int8 str complex64 int64 bool".split(), start=1
    )
} | {"bfloat16": 14, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23}


def _limit(which: str) -> Callable[[np.dtype[Any]], Any]:
    def limit(dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "b":
            return which == "max"
        of = jnp.iinfo if dtype.kind in "iu" else jnp.finfo
        return dtype.type(getattr(of(dtype), which))

    return limit


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    return (0, 1) if dtype.kind == "b" else (_limit("min")(dtype), _limit("max")(dtype))


def _is_compatible_with(dtype: np.dtype[Any], other: Any) -> bool:
    return bool(dtype == np.dtype(other))


def _is_floating(dtype: np.dtype[Any]) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating))


_ATTRIBUTES: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "as_datatype_enum": lambda dtype: _NUMBERS[
        dtype.name.rstrip("0123456789") if dtype.kind == "U" else dtype.name
    ],
    "as_numpy_dtype": lambda dtype: object if dtype.kind == "U" else dtype.type,
    "base_dtype": lambda dtype: dtype,
    "is_bool": lambda dtype: dtype.kind == "b",
    "is_complex": lambda dtype: dtype.kind == "c",
    "is_floating": _is_floating,
    "is_integer": lambda dtype: dtype.kind in "iu",
    "is_numpy_compatible": lambda dtype: True,
    "is_quantized": lambda dtype: False,
    "is_unsigned": lambda dtype: dtype.kind == "u",
    "limits": _limits,
    "max": _limit("max"),
    "min": _limit("min"),
    "real_dtype": lambda dtype: np.zeros((), dtype).real.dtype if dtype.kind == "c" else dtype,
    "size": lambda dtype: 1 if dtype.kind == "U" else dtype.itemsize,
}


DTYPE_ATTRIBUTES = frozenset((*_ATTRIBUTES, "is_compatible_with"))
"""The names of the attributes."""


def patch() -> None:
    """Give the attributes to NumPy's class of dtypes, and text TensorFlow's name.

    ``x.dtype == "string"`` asks NumPy for the dtype of that name, and is False if it knows none.
    """
    change_item(np, "sctypeDict", "string", np.str_)
    change(np.dtype, "is_compatible_with", _is_compatible_with)
    for name, read in _ATTRIBUTES.items():
        change(np.dtype, name, property(read))
