"""value_and_grad: JAX's way to write a gradient, with respect to Keras' variables."""

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
    """A function that gives the value of another one, and its gradients with respect to variables.

    In ``strategy.run`` both are this replica's; ``optimizer.apply_gradients`` and ``optimizer.apply`` add
    those of all replicas. So the loss of a replica is to be its part of the loss of the global batch.

    Args:
        function: returns the loss, a floating-point number, per replica; with ``has_aux``, (loss, anything).
        variables: with respect to which: a variable, or a nested structure of them.
        has_aux: whether the function returns a pair.

    Returns:
        From the arguments of the function to (what it returns, gradients in the structure of ``variables``).
        What the loss does not depend on has a gradient of zeros.

    Raises:
        GradientError: when it is called: the loss is no single number, or depends on no variable at all.
        TraceError: when it is called: outside of a step.
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
