"""Divide by sums of weights, counts or squares: where those are zero, results and gradients are zero.

A quotient that ``jnp.where`` replaces by zero still has a gradient of infinity times zero, which is no number
and reaches all that a step trains. So what is divided by is replaced, too.

Source: tensorflow/python/ops/math_ops.py, ``div_no_nan``, by which TensorFlow divides by such sums.
"""

import jax
import jax.numpy as jnp


def ratio(total: jax.Array, divisor: jax.Array) -> jax.Array:
    """Return a quotient, and 0 where the divisor is 0; so is the gradient there.

    Args:
        total: Float of any shape.
        divisor: Numbers of a shape that broadcasts with it.
    """
    is_zero = divisor == 0
    return jnp.where(is_zero, 0, total / jnp.where(is_zero, 1, divisor)).astype(jnp.result_type(total))


def root(squares: jax.Array) -> jax.Array:
    """Return the square root of sums of squares; where they are 0, the gradient is 0 instead of infinite."""
    is_positive = squares > 0
    return jnp.where(
        is_positive, jnp.sqrt(jnp.where(is_positive, squares, 1)), jnp.where(squares < 0, jnp.nan, 0)
    )


def combined(rows: jax.Array, weights: jax.Array, combiner: str) -> jax.Array:
    """Return the combination of some rows of each example, by their weights.

    Args:
        rows: Float of shape (..., rows of an example, width).
        weights: Of shape (..., rows of an example); 0 for what is no row.
        combiner: ``"sum"``; ``"mean"``, divided by the sum of the weights; or ``"sqrtn"``, divided by the
            root of the sum of their squares.

    Returns:
        Of shape (..., width); zeros where the divisor is 0.
    """
    total = jnp.sum(rows * weights[..., None], -2)
    if combiner == "sum":
        return total
    divisor = jnp.sum(weights, -1) if combiner == "mean" else root(jnp.sum(weights * weights, -1))
    return ratio(total, divisor[..., None])
