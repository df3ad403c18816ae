"""``tf.contrib.layers``: regularizers, and initializers with contrib's defaults."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from muster.program import add_penalty, trainable_variables
from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array
from muster_tensorflow.programs.v1.variables._initializers import (
    glorot_normal_initializer,
    glorot_uniform_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    variance_scaling_initializer as _variance_scaling,
)

Regularizer = Callable[[ArrayLike], jax.Array]


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return ``weights -> scale * sum(|weights|)``."""
    return lambda weights: scale * jnp.sum(jnp.abs(jnp.asarray(as_array(weights))))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return ``weights -> scale * sum(weights ** 2) / 2``."""
    return lambda weights: scale * jnp.sum(jnp.square(jnp.asarray(as_array(weights)))) / 2


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """Return the sum of `l1_regularizer` and `l2_regularizer`."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)])


def sum_regularizer(regularizer_list: Iterable[Regularizer], scope: str | None = None) -> Regularizer:
    """Return the sum of regularizers."""
    several = [each for each in regularizer_list if each is not None]
    return lambda weights: sum((each(weights) for each in several), start=jnp.float32(0))


def apply_regularization(regularizer: Regularizer, weights_list: Iterable[Any] | None = None) -> jax.Array:
    """Return the sum of the penalties of weights, which is a regularization loss of the model_fn, too.

    Args:
        regularizer: Gives the penalty of a variable.
        weights_list: The variables; None takes all trainable ones so far.
    """
    variables = trainable_variables() if weights_list is None else weights_list
    total = sum((regularizer(each) for each in variables), start=jnp.float32(0))
    add_penalty("apply_regularization", total)
    return total


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: DTypeLike = None) -> Any:
    """Return Glorot's initializer."""
    return glorot_uniform_initializer(seed) if uniform else glorot_normal_initializer(seed)


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: DTypeLike = None,
) -> Any:
    """Return an initializer whose variance is ``factor`` divided by the number of inputs, by default He's."""
    distribution = "uniform" if uniform else "truncated_normal"
    return _variance_scaling(factor, mode.lower(), distribution, seed)
