"""``replicate_model_fn`` and ``TowerOptimizer``: a model on all GPUs of a machine, before strategies."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax

from muster.distribute import get_strategy
from muster_tensorflow.programs.v1.losses import Reduction

_log = logging.getLogger(__name__)


def replicate_model_fn(
    model_fn: Callable[..., Any],
    loss_reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a model_fn that computes whole batches, which is what TensorFlow's towers add up to.

    Where there are other devices, the strategy of the `RunConfig` uses them.

    Args:
        model_fn: The model_fn of one tower.
        loss_reduction: How the loss was reduced; not ``NONE``.
        devices: The devices of the towers; None for all GPUs.

    Raises:
        ValueError: The loss is not reduced.

    Source: tensorflow/contrib/estimator/python/estimator/replicate_model_fn.py, ``replicate_model_fn``.
    """
    if loss_reduction == Reduction.NONE:
        raise ValueError(
            f"Tower losses need to be reduced in some way, yet {loss_reduction} reduction is specified."
        )
    there = [each for each in jax.local_devices() if each.platform != "cpu"] or jax.local_devices()[:1]
    count = min(len(devices or there), len(there))

    @functools.wraps(model_fn)
    def replicated(*args: Any, **kwargs: Any) -> Any:
        if count > 1 and get_strategy().num_replicas_in_sync == 1:
            _say_how_to_use(count)
        return model_fn(*args, **kwargs)

    return replicated


@functools.cache
def _say_how_to_use(count: int) -> None:
    _log.warning(
        "replicate_model_fn: one device computes, of %d. Give the Estimator "
        "tf.estimator.RunConfig(train_distribute=tf.distribute.MirroredStrategy()) to use all of them.",
        count,
    )


def TowerOptimizer(optimizer_or_optimizer_fn: Any) -> Any:  # TensorFlow's name
    """Return an optimizer as it is; of a function that makes one, what it makes.

    Args:
        optimizer_or_optimizer_fn: The optimizer, or a function without arguments.
    """
    called = callable(optimizer_or_optimizer_fn) and not hasattr(optimizer_or_optimizer_fn, "apply_gradients")
    return optimizer_or_optimizer_fn() if called else optimizer_or_optimizer_fn
