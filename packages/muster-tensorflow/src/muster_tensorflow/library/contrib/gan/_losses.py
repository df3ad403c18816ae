"""Losses of generators and discriminators, from the discriminator's outputs.

Source: tensorflow/contrib/gan/python/losses/python/losses_impl.py.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster import gradients
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops.random import _random
from muster_tensorflow.programs.v1 import losses
from muster_tensorflow.programs.v1._collections import GraphKeys, add_loss
from muster_tensorflow.programs.v1._step import name_scope
from muster_tensorflow.programs.v1._summary import of_graphs, scalar
from muster_tensorflow.programs.v1.variables._variables import AUTO_REUSE, variable_scope

_scalar = of_graphs(scalar, "tensor", "collections", "family")
_REDUCTION = losses.Reduction.SUM_BY_NONZERO_WEIGHTS


def _weighted(values: Array, weights: ArrayLike, collection: str | None, reduction: str) -> Array:
    return losses.compute_weighted_loss(values, weights, None, collection, reduction)


def _summaries(add: bool | None, **values: Array) -> None:
    for name, value in values.items() if add else ():
        _scalar(name, value)


def wasserstein_generator_loss(
    discriminator_gen_outputs: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the mean of ``-D(generated)``.

    Args:
        discriminator_gen_outputs: The discriminator's outputs on generated data.
        weights: Of each output.
        scope: The prefix of names of values.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of ``tf.losses.Reduction``.
        add_summaries: Whether to write a summary.
    """
    with name_scope(scope, "generator_wasserstein_loss"):
        outputs = as_array(discriminator_gen_outputs, jnp.float32)
        loss = _weighted(-outputs, weights, loss_collection, reduction)
        _summaries(add_summaries, generator_wass_loss=loss)
    return loss


def wasserstein_discriminator_loss(
    discriminator_real_outputs: ArrayLike,
    discriminator_gen_outputs: ArrayLike,
    real_weights: ArrayLike = 1.0,
    generated_weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the mean of ``D(generated)`` less that of ``D(real)``.

    Args:
        discriminator_real_outputs: The discriminator's outputs on real data.
        discriminator_gen_outputs: Those on generated data.
        real_weights: Of each output on real data.
        generated_weights: Of each output on generated data.
        scope: The prefix of names of values.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of ``tf.losses.Reduction``.
        add_summaries: Whether to write summaries.
    """
    with name_scope(scope, "discriminator_wasserstein_loss"):
        real = as_array(discriminator_real_outputs, jnp.float32)
        generated = as_array(discriminator_gen_outputs, jnp.float32)
        on_generated = _weighted(generated, generated_weights, None, reduction)
        on_real = _weighted(real, real_weights, None, reduction)
        loss = on_generated - on_real
        add_loss(loss, loss_collection)
        _summaries(
            add_summaries,
            discriminator_gen_wass_loss=on_generated,
            discriminator_real_wass_loss=on_real,
            discriminator_wass_loss=loss,
        )
    return loss


def wasserstein_gradient_penalty(
    real_data: ArrayLike,
    generated_data: ArrayLike,
    generator_inputs: Any,
    discriminator_fn: Callable[..., Any],
    discriminator_scope: Any,
    epsilon: float = 1e-10,
    target: float = 1.0,
    one_sided: bool = False,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return how far norms of the discriminator's gradients are from ``target``, between real and generated.

    Args:
        real_data: Real data.
        generated_data: Generated data, of the same shape.
        generator_inputs: The second argument of the discriminator.
        discriminator_fn: The discriminator.
        discriminator_scope: The scope of its variables; None for ``gpenalty_dscope``.
        epsilon: Added to squares of norms.
        target: The norm that is not penalised.
        one_sided: Whether to penalise larger norms alone.
        weights: Of each example.
        scope: The prefix of names of values.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of ``tf.losses.Reduction``.
        add_summaries: Whether to write a summary.
    """
    with name_scope(scope, "wasserstein_gradient_penalty"):
        real = as_array(real_data)
        differences = as_array(generated_data) - real
        alpha = _random.uniform((differences.shape[0], *[1] * (differences.ndim - 1)))
        between = real + alpha * differences
        with variable_scope(discriminator_scope, "gpenalty_dscope", reuse=AUTO_REUSE):
            outputs = discriminator_fn(between, generator_inputs)
        if isinstance(outputs, tuple):  # of a discriminator that tells classes, too
            outputs = outputs[0]
        (slope,) = gradients(outputs, [between])
        norms = jnp.sqrt(jnp.sum(jnp.square(slope), axis=tuple(range(1, slope.ndim))) + epsilon)
        excess = norms / target - 1.0
        if one_sided:
            excess = jnp.maximum(0.0, excess)
        penalty = _weighted(jnp.square(excess), weights, loss_collection, reduction)
        _summaries(add_summaries, gradient_penalty_loss=penalty)
    return penalty


def minimax_discriminator_loss(
    discriminator_real_outputs: ArrayLike,
    discriminator_gen_outputs: ArrayLike,
    label_smoothing: float = 0.25,
    real_weights: ArrayLike = 1.0,
    generated_weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the cross entropies of logits, of real data with labels 1 and of generated data with 0.

    Args:
        discriminator_real_outputs: Logits of real data.
        discriminator_gen_outputs: Logits of generated data.
        label_smoothing: How far labels of real data are moved towards a half.
        real_weights: Of each logit of real data.
        generated_weights: Of each logit of generated data.
        scope: The prefix of names of values.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of ``tf.losses.Reduction``.
        add_summaries: Whether to write summaries.
    """
    with name_scope(scope, "discriminator_minimax_loss"):
        real, generated = as_array(discriminator_real_outputs), as_array(discriminator_gen_outputs)
        on_real = losses.sigmoid_cross_entropy(
            jnp.ones_like(real), real, real_weights, label_smoothing, None, None, reduction
        )
        on_generated = losses.sigmoid_cross_entropy(
            jnp.zeros_like(generated), generated, generated_weights, 0.0, None, None, reduction
        )
        loss = on_real + on_generated
        add_loss(loss, loss_collection)
        _summaries(
            add_summaries,
            discriminator_gen_minimax_loss=on_generated,
            discriminator_real_minimax_loss=on_real,
            discriminator_minimax_loss=loss,
        )
    return loss


def minimax_generator_loss(
    discriminator_gen_outputs: ArrayLike,
    label_smoothing: float = 0.0,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the discriminator's loss of `minimax_discriminator_loss`, with the other sign.

    Args as of `wasserstein_generator_loss`, and ``label_smoothing`` as of the discriminator's loss.
    """
    with name_scope(scope, "generator_minimax_loss"):
        outputs = as_array(discriminator_gen_outputs)
        loss = -minimax_discriminator_loss(
            jnp.ones_like(outputs), outputs, label_smoothing, weights, weights, None, None, reduction
        )
        add_loss(loss, loss_collection)
        _summaries(add_summaries, generator_minimax_loss=loss)
    return loss


def modified_discriminator_loss(
    discriminator_real_outputs: ArrayLike,
    discriminator_gen_outputs: ArrayLike,
    label_smoothing: float = 0.25,
    real_weights: ArrayLike = 1.0,
    generated_weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the same as `minimax_discriminator_loss`."""
    return minimax_discriminator_loss(
        discriminator_real_outputs,
        discriminator_gen_outputs,
        label_smoothing,
        real_weights,
        generated_weights,
        scope or "discriminator_modified_loss",
        loss_collection,
        reduction,
        add_summaries,
    )


def modified_generator_loss(
    discriminator_gen_outputs: ArrayLike,
    label_smoothing: float = 0.0,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return the cross entropy of logits of generated data with labels 1.

    Args as of `wasserstein_generator_loss`; ``label_smoothing`` moves labels towards a half.
    """
    with name_scope(scope, "generator_modified_loss"):
        outputs = as_array(discriminator_gen_outputs)
        loss = losses.sigmoid_cross_entropy(
            jnp.ones_like(outputs), outputs, weights, label_smoothing, None, loss_collection, reduction
        )
        _summaries(add_summaries, generator_modified_loss=loss)
    return loss


def least_squares_generator_loss(
    discriminator_gen_outputs: ArrayLike,
    real_label: float = 1,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return half the squared distance of outputs on generated data from ``real_label``.

    Args as of `wasserstein_generator_loss`.
    """
    with name_scope(scope, "lsq_generator_loss"):
        outputs = as_array(discriminator_gen_outputs, jnp.float32)
        loss = _weighted(jnp.square(outputs - real_label) / 2.0, weights, loss_collection, reduction)
        _summaries(add_summaries, generator_lsq_loss=loss)
    return loss


def least_squares_discriminator_loss(
    discriminator_real_outputs: ArrayLike,
    discriminator_gen_outputs: ArrayLike,
    real_label: float = 1,
    fake_label: float = 0,
    real_weights: ArrayLike = 1.0,
    generated_weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _REDUCTION,
    add_summaries: bool | None = False,
) -> Array:
    """Return half the squared distances of outputs from their labels.

    Args as of `wasserstein_discriminator_loss`.
    """
    with name_scope(scope, "lsq_discriminator_loss"):
        real = as_array(discriminator_real_outputs, jnp.float32)
        generated = as_array(discriminator_gen_outputs, jnp.float32)
        on_real = _weighted(jnp.square(real - real_label) / 2.0, real_weights, None, reduction)
        on_generated = _weighted(jnp.square(generated - fake_label) / 2.0, generated_weights, None, reduction)
        loss = on_real + on_generated
        add_loss(loss, loss_collection)
        _summaries(add_summaries, discriminator_lsq_loss=loss)
    return loss


def of_model(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a loss that takes a ``GANModel``, from one that takes the discriminator's outputs, or data.

    Args:
        function: One of the functions above, whose first arguments are fields of ``GANModel``.
    """
    code: Any = function.__code__
    fields = [name for name in code.co_varnames[: code.co_argcount] if name in FIELDS]

    def loss(gan_model: Any, **kwargs: Any) -> Array:
        given = {name: getattr(gan_model, name) for name in fields}
        return function(**(given | kwargs))

    loss.__name__ = loss.__qualname__ = function.__name__
    loss.__doc__ = f"Return `wargs.{function.__name__}` of a ``GANModel``."
    return loss


FIELDS = (
    "real_data",
    "generated_data",
    "generator_inputs",
    "discriminator_fn",
    "discriminator_scope",
    "discriminator_real_outputs",
    "discriminator_gen_outputs",
)
"""The fields of ``GANModel`` that losses take."""
