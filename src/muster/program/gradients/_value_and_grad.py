"""Compute gradients in JAX's way: value_and_grad, with respect to Keras' variables."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import GradientError
from muster._keras import keras
from muster.program.gradients._gradients import gradients


def value_and_grad(
    function: Callable[..., Any], variables: Any, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Make a function that computes another function and its gradients with respect to variables.

    In ``strategy.run`` both are this replica's; ``optimizer.apply_gradients`` and ``optimizer.apply`` add the
    gradients of all replicas. So each replica must return its part of the loss of the global batch.

    Args:
        function: Returns the loss, a floating-point number, per replica; with ``has_aux``, (loss, anything).
        variables: A variable, or a nested structure of them.
        has_aux: Whether the function returns a pair.

    Returns:
        A function of the same arguments that returns (the function's result, gradients in the structure of
        ``variables``). The gradient with respect to a variable on which the loss does not depend is zeros.

    Raises:
        GradientError: Raised by the new function: the loss is no single number, or depends on no variable.
        TraceError: Raised by the new function: it is called outside of a step.
    """

    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value = function(*args, **kwargs)
        loss = value[0] if has_aux else value
        if jnp.shape(loss) != ():
            raise GradientError(
                f"The loss must be a single number, got an array of shape {jnp.shape(loss)}. Take its sum "
                "over the examples, divided by the size of the global batch."
            )
        leaves, structure = jax.tree.flatten(variables, is_leaf=lambda x: isinstance(x, keras.Variable))
        return value, jax.tree.unflatten(structure, gradients(loss, leaves))

    return call
