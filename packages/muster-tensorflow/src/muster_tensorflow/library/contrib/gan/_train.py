"""A generator and a discriminator: the model, its losses, and steps of their optimizers.

Source: tensorflow/contrib/gan/python/train.py and namedtuples.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from muster.estimator import SessionRunHook
from muster_tensorflow.library.contrib.gan import _losses
from muster_tensorflow.library.contrib.training import create_train_op
from muster_tensorflow.programs.v1._step import get_or_create_global_step, trainable_variables
from muster_tensorflow.programs.v1.losses import get_regularization_loss
from muster_tensorflow.programs.v1.variables._variables import VariableScope, variable_scope

_generator_loss = _losses.of_model(_losses.wasserstein_generator_loss)
_discriminator_loss = _losses.of_model(_losses.wasserstein_discriminator_loss)
_penalty = _losses.of_model(_losses.wasserstein_gradient_penalty)


class GANModel(NamedTuple):
    """Holds what `gan_model` computes, and the variables and functions that it takes."""

    generator_inputs: Any
    generated_data: Any
    generator_variables: Any
    generator_scope: Any
    generator_fn: Any
    real_data: Any
    discriminator_real_outputs: Any
    discriminator_gen_outputs: Any
    discriminator_variables: Any
    discriminator_scope: Any
    discriminator_fn: Any


class GANLoss(NamedTuple):
    """The losses of the generator and of the discriminator, both of shape ()."""

    generator_loss: Any
    discriminator_loss: Any


class GANTrainOps(NamedTuple):
    """Holds the train ops of `gan_train_ops`, whose steps are taken in the model_fn."""

    generator_train_op: Any
    discriminator_train_op: Any
    global_step_inc_op: Any
    train_hooks: Any = ()


class GANTrainSteps(NamedTuple):
    """The number of steps of each network in one training step."""

    generator_train_steps: int
    discriminator_train_steps: int


def gan_model(
    generator_fn: Callable[..., Any],
    discriminator_fn: Callable[..., Any],
    real_data: Any,
    generator_inputs: Any,
    generator_scope: str | VariableScope = "Generator",
    discriminator_scope: str | VariableScope = "Discriminator",
    check_shapes: bool = True,
    reuse: bool | None = None,
) -> GANModel:
    """Generate data, and let the discriminator tell it from real data.

    Args:
        generator_fn: Takes ``generator_inputs``, returns generated data.
        discriminator_fn: Takes data and ``generator_inputs``, returns what losses take.
        real_data: Real data.
        generator_inputs: The generator's noise, and whatever else.
        generator_scope: The scope of the generator's variables.
        discriminator_scope: The scope of the discriminator's variables.
        check_shapes: Whether generated data must have the shape of real data.
        reuse: Whether the variables exist already, in a step that computes the model again.

    Raises:
        ValueError: The shapes differ.
    """
    with variable_scope(generator_scope, reuse=reuse) as of_generator:
        generated = generator_fn(generator_inputs)
    with variable_scope(discriminator_scope, reuse=reuse) as of_discriminator:
        on_generated = discriminator_fn(generated, generator_inputs)
    with variable_scope(of_discriminator, reuse=True):
        on_real = discriminator_fn(real_data, generator_inputs)
    if check_shapes and tuple(generated.shape) != tuple(real_data.shape):
        raise ValueError(
            f"Generator output shape ({tuple(generated.shape)}) must be the shape of real data "
            f"({tuple(real_data.shape)})."
        )
    return GANModel(
        generator_inputs,
        generated,
        trainable_variables(f"{of_generator.name}/"),
        of_generator,
        generator_fn,
        real_data,
        on_real,
        on_generated,
        trainable_variables(f"{of_discriminator.name}/"),
        of_discriminator,
        discriminator_fn,
    )


def gan_loss(
    model: GANModel,
    generator_loss_fn: Callable[..., Any] = _generator_loss,
    discriminator_loss_fn: Callable[..., Any] = _discriminator_loss,
    gradient_penalty_weight: Any = None,
    gradient_penalty_epsilon: float = 1e-10,
    gradient_penalty_target: float = 1.0,
    gradient_penalty_one_sided: bool = False,
    add_summaries: bool = True,
) -> GANLoss:
    """Return the losses of a model, with the penalties of its variables.

    Args:
        model: The model.
        generator_loss_fn: Takes the model and ``add_summaries``.
        discriminator_loss_fn: Likewise.
        gradient_penalty_weight: The factor of ``wasserstein_gradient_penalty``; None for none.
        gradient_penalty_epsilon: As of it, likewise what follows.
        gradient_penalty_target: The norm that is not penalised.
        gradient_penalty_one_sided: Whether to penalise larger norms alone.
        add_summaries: Whether losses write summaries.
    """
    generator = generator_loss_fn(model, add_summaries=add_summaries)
    discriminator = discriminator_loss_fn(model, add_summaries=add_summaries)
    if gradient_penalty_weight is not None:
        discriminator += gradient_penalty_weight * _penalty(
            model,
            epsilon=gradient_penalty_epsilon,
            target=gradient_penalty_target,
            one_sided=gradient_penalty_one_sided,
            add_summaries=add_summaries,
        )
    return GANLoss(
        generator + get_regularization_loss(f"{model.generator_scope.name}/"),
        discriminator + get_regularization_loss(f"{model.discriminator_scope.name}/"),
    )


def gan_train_ops(
    model: GANModel,
    loss: GANLoss,
    generator_optimizer: Any,
    discriminator_optimizer: Any,
    check_for_unused_update_ops: bool = True,
    is_chief: bool = True,
    **kwargs: Any,
) -> GANTrainOps:
    """Take a step of both networks, from the losses of one model, and count it.

    Args:
        model: The model.
        loss: Its losses.
        generator_optimizer: Takes the generator's step.
        discriminator_optimizer: Takes the discriminator's.
        check_for_unused_update_ops: Unused: all updates of the model are run.
        is_chief: Unused.
        **kwargs: For ``create_train_op``.

    Returns:
        ``global_step_inc_op`` serves as the ``train_op``.
    """
    steps = [
        create_train_op(each, optimizer, global_step=None, variables_to_train=variables, **kwargs)
        for each, optimizer, variables in (
            (loss.generator_loss, generator_optimizer, model.generator_variables),
            (loss.discriminator_loss, discriminator_optimizer, model.discriminator_variables),
        )
    ]
    return GANTrainOps(steps[0], steps[1], get_or_create_global_step().assign_add(1))


class RunTrainOpsHook(SessionRunHook):
    """Takes steps of train ops some times in each training step: see ``GANEstimator(get_hooks_fn=…)``.

    In the hooks of another Estimator only once: a model_fn takes a step of `gan_train_ops` where it calls it.

    Args:
        train_ops: A train op of a `GANTrainOps`, or several whose steps are taken from the same values.
        train_steps: How often.
    """

    def __init__(self, train_ops: Any, train_steps: int) -> None:
        self.train_ops = list(train_ops) if isinstance(train_ops, list | tuple) else [train_ops]
        self.train_steps = train_steps

    def begin(self) -> None:
        """Refuse what a model_fn has not done.

        Raises:
            ValueError: There are to be several steps, or none.
        """
        if self.train_steps != 1:
            raise ValueError(
                f"A model_fn takes one step of gan_train_ops, and hooks cannot run {self.train_steps}: let "
                "tf.contrib.gan.estimator.GANEstimator take them, by its get_hooks_fn."
            )


def get_sequential_train_hooks(
    train_steps: GANTrainSteps = GANTrainSteps(1, 1),  # noqa: B008
) -> Callable[[GANTrainOps], Sequence[RunTrainOpsHook]]:
    """Return a function of train ops that returns hooks: of the generator, then of the discriminator.

    Args:
        train_steps: The number of steps of each.
    """

    def hooks(train_ops: GANTrainOps) -> Sequence[RunTrainOpsHook]:
        return [
            RunTrainOpsHook(train_ops.generator_train_op, train_steps.generator_train_steps),
            RunTrainOpsHook(train_ops.discriminator_train_op, train_steps.discriminator_train_steps),
        ]

    return hooks


def get_joint_train_hooks(
    train_steps: GANTrainSteps = GANTrainSteps(1, 1),  # noqa: B008
) -> Callable[[GANTrainOps], Sequence[RunTrainOpsHook]]:
    """Return a function of train ops that returns hooks: of both at once, then of the one with more steps.

    Args:
        train_steps: The number of steps of each.
    """
    both = min(train_steps)

    def hooks(train_ops: GANTrainOps) -> Sequence[RunTrainOpsHook]:
        ops = (train_ops.generator_train_op, train_ops.discriminator_train_op)
        alone = [RunTrainOpsHook(op, count - both) for op, count in zip(ops, train_steps, strict=True)]
        return [RunTrainOpsHook(ops, both), *alone]

    return hooks
