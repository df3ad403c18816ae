"""The update rules of TensorFlow's optimizers: elementwise, from gradient, slots and learning rate.

Each function takes the gradient, the weights, the slots and the learning rate, and returns the new weights
and slots. Source: tensorflow/core/kernels/training_ops.cc, a functor for each.
"""

import jax
import jax.numpy as jnp

Arrays = tuple[jax.Array, ...]


def gradient_descent(gradient: jax.Array, weights: jax.Array, rate: jax.Array) -> Arrays:
    """Gradient descent."""
    return (weights - rate * gradient,)


def momentum(
    gradient: jax.Array,
    weights: jax.Array,
    accumulated: jax.Array,
    rate: jax.Array,
    *,
    momentum: float,
    nesterov: bool,
) -> Arrays:
    """Momentum: the rate stays outside of what accumulates."""
    accumulated = accumulated * momentum + gradient
    step = gradient + accumulated * momentum if nesterov else accumulated
    return weights - rate * step, accumulated


def keras_momentum(
    gradient: jax.Array,
    weights: jax.Array,
    accumulated: jax.Array,
    rate: jax.Array,
    *,
    momentum: float,
    nesterov: bool,
) -> Arrays:
    """Keras' momentum: what accumulates are steps, each by the rate of its time."""
    accumulated = accumulated * momentum - rate * gradient
    step = accumulated * momentum - rate * gradient if nesterov else accumulated
    return weights + step, accumulated


def adagrad(
    gradient: jax.Array, weights: jax.Array, accumulator: jax.Array, rate: jax.Array, *, epsilon: float = 0.0
) -> Arrays:
    """Adagrad."""
    accumulator = accumulator + jnp.square(gradient)
    return weights - rate * gradient / (jnp.sqrt(accumulator) + epsilon), accumulator


def adadelta(
    gradient: jax.Array,
    weights: jax.Array,
    squares: jax.Array,
    steps: jax.Array,
    rate: jax.Array,
    *,
    rho: float,
    epsilon: float,
) -> Arrays:
    """Adadelta: means of the squares of gradients and of steps."""
    squares = rho * squares + (1 - rho) * jnp.square(gradient)
    step = jnp.sqrt(steps + epsilon) * jax.lax.rsqrt(squares + epsilon) * gradient
    return weights - rate * step, squares, rho * steps + (1 - rho) * jnp.square(step)


def rmsprop(
    gradient: jax.Array,
    weights: jax.Array,
    squares: jax.Array,
    *slots_and_rate: jax.Array,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> Arrays:
    """RMSProp; of its slots that of the momentum is there if it is not zero, that of the mean if centered."""
    *slots, rate = slots_and_rate
    squares = rho * squares + (1 - rho) * jnp.square(gradient)
    variance, mean = squares, []
    if centered:
        mean = [rho * slots[-1] + (1 - rho) * gradient]
        variance = squares - jnp.square(mean[0])
    step = rate * gradient * jax.lax.rsqrt(variance + epsilon)
    if not momentum:
        return weights - step, squares, *mean
    step = momentum * slots[0] + step
    return weights - step, squares, step, *mean


def keras_rmsprop(
    gradient: jax.Array,
    weights: jax.Array,
    squares: jax.Array,
    *mean_and_rate: jax.Array,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> Arrays:
    """Keras' RMSprop without momentum: epsilon is outside of the root."""
    *mean, rate = mean_and_rate
    squares = rho * squares + (1 - rho) * jnp.square(gradient)
    variance = squares
    if centered:
        mean = [rho * mean[0] + (1 - rho) * gradient]
        variance = squares - jnp.square(mean[0])
    return weights - rate * gradient / (jnp.sqrt(variance) + epsilon), squares, *mean


def adam(
    gradient: jax.Array,
    weights: jax.Array,
    mean: jax.Array,
    squares: jax.Array,
    *largest_and_rate: jax.Array,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Arrays:
    """Adam, by a rate that makes up for the means' start at zero; with a third slot, AMSGrad."""
    *largest, rate = largest_and_rate
    mean = beta_1 * mean + (1 - beta_1) * gradient
    squares = beta_2 * squares + (1 - beta_2) * jnp.square(gradient)
    largest = [jnp.maximum(each, squares) for each in largest]
    return weights - rate * mean / (jnp.sqrt([squares, *largest][-1]) + epsilon), mean, squares, *largest


def adamax(
    gradient: jax.Array,
    weights: jax.Array,
    mean: jax.Array,
    norm: jax.Array,
    rate: jax.Array,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Arrays:
    """Adamax, by a rate that makes up for the mean's start at zero."""
    mean = beta_1 * mean + (1 - beta_1) * gradient
    norm = jnp.maximum(beta_2 * norm, jnp.abs(gradient))
    return weights - rate * mean / (norm + epsilon), mean, norm


def nadam_step(
    gradient: jax.Array,
    weights: jax.Array,
    mean: jax.Array,
    squares: jax.Array,
    rate: jax.Array,
    of_gradient: jax.Array,
    of_mean: jax.Array,
    of_squares: jax.Array,
    *,
    epsilon: float,
) -> Arrays:
    """Nadam's step, from means that are updated already, and the factors of this step."""
    direction = of_gradient * gradient + of_mean * mean
    return (weights - rate * direction / (jnp.sqrt(squares / of_squares) + epsilon),)


def ftrl(
    gradient: jax.Array,
    weights: jax.Array,
    accumulator: jax.Array,
    linear: jax.Array,
    rate: jax.Array,
    *,
    power: float,
    l1: float,
    l2: float,
    shrinkage: float,
    beta: float,
) -> Arrays:
    """FTRL-Proximal."""
    squares = accumulator + jnp.square(gradient)
    sigma = (squares**-power - accumulator**-power) / rate
    linear = linear + gradient + 2 * shrinkage * weights - sigma * weights
    quadratic = squares**-power / rate + 2 * (l2 + beta / (2 * rate))
    return (jnp.clip(linear, -l1, l1) - linear) / quadratic, squares, linear


def proximal_gradient_descent(
    gradient: jax.Array, weights: jax.Array, rate: jax.Array, *, l1: float, l2: float
) -> Arrays:
    """Gradient descent, then a step towards zero."""
    return (_towards_zero(weights - rate * gradient, rate, l1, l2),)


def proximal_adagrad(
    gradient: jax.Array, weights: jax.Array, accumulator: jax.Array, rate: jax.Array, *, l1: float, l2: float
) -> Arrays:
    """Adagrad, then a step towards zero by the same rate."""
    accumulator = accumulator + jnp.square(gradient)
    rate = rate * jax.lax.rsqrt(accumulator)
    return _towards_zero(weights - rate * gradient, rate, l1, l2), accumulator


def _towards_zero(weights: jax.Array, rate: jax.Array, l1: float, l2: float) -> jax.Array:
    shrunk = jnp.sign(weights) * jnp.maximum(jnp.abs(weights) - rate * l1, 0.0) if l1 > 0 else weights
    return shrunk / (1 + rate * l2)
