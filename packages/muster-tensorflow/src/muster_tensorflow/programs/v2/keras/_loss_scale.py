"""``LossScaleOptimizer`` with the arguments that it had before TensorFlow 2.4."""

from typing import Any

from muster import keras


def experimental_loss_scale_optimizer(optimizer: Any, loss_scale: Any = "dynamic") -> Any:
    """Return an optimizer that scales the loss.

    Args:
        optimizer: The optimizer that it wraps.
        loss_scale: Must be ``"dynamic"``.

    Raises:
        ValueError: The scale is a number.

    Source: tensorflow/python/keras/mixed_precision/loss_scale_optimizer.py, ``LossScaleOptimizerV1``.
    """
    if loss_scale != "dynamic":
        raise ValueError(
            f'loss_scale must be "dynamic", got {loss_scale!r}: for a fixed scale give the optimizer itself '
            "loss_scale_factor, as in keras.optimizers.SGD(0.1, loss_scale_factor=128)."
        )
    return keras.optimizers.LossScaleOptimizer(optimizer)
