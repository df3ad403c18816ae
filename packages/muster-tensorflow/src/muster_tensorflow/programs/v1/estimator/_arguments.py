"""The arguments of TensorFlow 1's canned Estimators, as those of `muster.estimator` take them."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from muster import keras
from muster.estimator import WarmStartSettings
from muster.extend import AtModelsRate, OptimizerLike
from muster.feature_column import DenseColumn
from muster_tensorflow.programs.v1.losses import Reduction
from muster_tensorflow.programs.v1.training import _optimizers
from muster_tensorflow.programs.v1.training._optimizers import KerasBacked
from muster_tensorflow.programs.v1.training._own_optimizers import Optimizer

OptimizerV1: TypeAlias = str | Optimizer | Callable[[], Optimizer]
"""A name, an optimizer of ``tf.compat.v1.train``, or a function without arguments that returns a new one."""
Path: TypeAlias = str | os.PathLike[str]
Columns: TypeAlias = Iterable[DenseColumn] | DenseColumn
WarmStart: TypeAlias = Path | WarmStartSettings | None
Activation: TypeAlias = Callable[[Any], Any] | str | None

OPTIMIZERS: dict[str, Any] = {
    "Adagrad": _optimizers.AdagradOptimizer,
    "Adam": _optimizers.AdamOptimizer,
    "Ftrl": _optimizers.FtrlOptimizer,
    "RMSProp": _optimizers.RMSPropOptimizer,
    "SGD": _optimizers.GradientDescentOptimizer,
}
# The others have the same names.
_REDUCTIONS = {Reduction.SUM: "sum", Reduction.SUM_OVER_BATCH_SIZE: "sum_over_batch_size"}
DNN_RATE = 0.05


def as_optimizer(optimizer: OptimizerV1, rate: float | None = None) -> OptimizerLike:
    """Return an optimizer as the Estimators of `muster.estimator` take it.

    Args:
        optimizer: The argument of a canned Estimator.
        rate: The learning rate of an optimizer that is given by name; None for that of `muster.estimator`.

    Raises:
        ValueError: It is none.

    Source: ``get_optimizer_instance`` (tensorflow_estimator/python/estimator/canned/optimizers.py).
    """
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: {tuple(sorted(OPTIMIZERS))}"
            )
        kind = OPTIMIZERS[optimizer]
        return AtModelsRate(lambda models: kind(models if rate is None else rate).keras_optimizer)
    if isinstance(optimizer, KerasBacked):
        return lambda: optimizer.copy().keras_optimizer
    if isinstance(optimizer, keras.optimizers.Optimizer) or not callable(optimizer):
        raise _wrong(optimizer)

    def made() -> keras.optimizers.Optimizer:
        returned = optimizer()
        if not isinstance(returned, KerasBacked):
            raise _wrong(returned)
        return returned.keras_optimizer

    return made


def _wrong(argument: object) -> ValueError:
    return ValueError(
        f"The given object is not an Optimizer instance. Given: {argument!r}. Give a name of "
        f"{tuple(sorted(OPTIMIZERS))}, an optimizer of tf.compat.v1.train, or a function that returns a new "
        "one."
    )


def as_reduction(loss_reduction: str) -> str:
    """Return the reduction in the words of `muster.estimator`; one of another name as it is."""
    return _REDUCTIONS.get(loss_reduction, loss_reduction)


def require_no_partitioner(partitioner: Any) -> None:
    """Check that no partitioner is given.

    Raises:
        ValueError: One is.
    """
    if partitioner is not None:
        raise ValueError(
            f"partitioner must be None, given: {partitioner!r}. Give one to ParameterServerStrategy, which "
            "divides all variables of a model."
        )
