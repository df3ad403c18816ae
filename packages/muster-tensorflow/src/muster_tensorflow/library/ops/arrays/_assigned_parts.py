"""``variable[0, 1].assign(…)``: assign to a slice of a variable.

In TensorFlow a slice of a variable is a tensor with the method ``assign``, which other tensors lack. Arrays
of JAX take no attributes of their own, so it is noted here which of them were read from where.

Source: tensorflow/python/ops/array_ops.py, ``_SliceHelperVar``, and ``strided_slice``.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.array import ArrayImpl

from muster import keras
from muster.extend import ByIdentity
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.patches import change, wrap

_READ_FROM: ByIdentity[Callable[..., Any] | None] = ByIdentity()


def _is_place(key: Any) -> bool:
    """Return whether a key has numbers, slices, ``...`` and new axes only, and no mask or list."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(
        each is None or each is Ellipsis or isinstance(each, slice) or _is_number(each) for each in keys
    )


def _is_number(key: Any) -> bool:
    return np.shape(key) == () and not isinstance(key, bool) and str(getattr(key, "dtype", "")) != "bool"


def _assign(variable: Any, key: Any, shape: tuple[int, ...], value: Any, name: str | None = None) -> Any:
    """Assign to a part of a variable.

    Args:
        variable: The variable.
        key: Where its part is.
        shape: The part's shape.
        value: What to assign; it may have fewer axes, or axes of one, as for operators.
        name: Unused.

    Returns:
        The variable.

    Raises:
        ValueError: The value has another shape.
    """
    value = jnp.asarray(as_array(value), variable.dtype)
    variable.assign(variable.value.at[key].set(jnp.broadcast_to(value, shape)))
    return variable


def _noting(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``keras.Variable.__getitem__``: what it returns can be assigned to."""

    @functools.wraps(original)
    def item(self: Any, key: Any) -> Any:
        part = original(self, key)
        if isinstance(part, jax.Array) and _is_place(key):
            _READ_FROM[part] = functools.partial(_assign, self, key, tuple(part.shape))
        return part

    return item


def _assign_of(self: Any) -> Callable[..., Any]:
    """Return the method that assigns to the part of the variable that an array was read from."""
    assign = _READ_FROM.get(self, None)
    if assign is None:
        raise AttributeError(
            "This array has no 'assign': only variables do, and parts of them, such as variable[0].",
            name="assign",
            obj=self,
        )
    return assign


def patch() -> None:
    """Give arrays and traced values ``assign``."""
    wrap(keras.Variable, "__getitem__", _noting)
    for owner in (ArrayImpl, jax.core.Tracer):
        change(owner, "assign", property(_assign_of))
