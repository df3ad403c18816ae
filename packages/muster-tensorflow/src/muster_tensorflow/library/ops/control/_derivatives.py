"""Functions with gradients of their own, and functions that are computed again for their gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._operation import operation


def _in_jax(values: Any) -> Any:
    return jax.tree.map(lambda value: jnp.asarray(as_array(value)), values)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function a gradient of its own.

    Args:
        f: Takes arrays, and returns the result and a function from the result's gradient to the arguments':
            None for one that has none.

    Source: tensorflow/python/ops/custom_gradient.py, ``custom_gradient``. Gradients with respect to variables
    that the function reads are not passed on: pass their values as arguments.
    """

    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        def both(*arrays: Any) -> Any:
            result, gradient = f(*arrays, **kwargs)

            def gradients(*given: Any) -> Any:
                made = gradient(*given)
                made = made if isinstance(made, list | tuple) else (made,)
                found = [
                    jnp.zeros_like(array) if each is None else _in_jax(each)
                    for each, array in zip(made, arrays, strict=True)
                ]
                return found[0] if len(arrays) == 1 else tuple(found)

            return _in_jax(result), gradients

        return jax.custom_gradient(both)(*map(_in_jax, args))

    with_gradient.__name__ = getattr(f, "__name__", "function")
    return operation(with_gradient)


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Let gradients compute a function again, rather than keep what is between its arguments and results."""

    def again(*args: Any, **kwargs: Any) -> Any:
        return jax.checkpoint(lambda *arrays: _in_jax(f(*arrays, **kwargs)))(*map(_in_jax, args))

    again.__name__ = getattr(f, "__name__", "function")
    return operation(again)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Let the gradient of a function of one array be the result's, as if the function were not there."""

    def through(x: Any) -> Any:
        value = _in_jax(x)
        return value + jax.lax.stop_gradient(_in_jax(f(value)) - value)

    through.__name__ = getattr(f, "__name__", "function")
    return operation(through)
