"""Optimizers of ``tf.contrib.opt`` with decoupled weight decay.

Source: tensorflow/contrib/opt/python/training/weight_decay_optimizers.py of TensorFlow 1.15.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

from muster import keras
from muster.extend import current_scope
from muster.program import TrainOp, run_updates, train_op_of
from muster_tensorflow.library.ops._value_names import path_of
from muster_tensorflow.programs.v1.training._optimizers import AdamOptimizer, KerasBacked, MomentumOptimizer


@functools.cache
def extend_with_decoupled_weight_decay(base_optimizer: type[KerasBacked]) -> type[KerasBacked]:
    """Return a class of optimizers whose steps first subtract a part of each variable from it.

    It takes that part, ``weight_decay``, and then what the other class takes. Its ``minimize`` and
    ``apply_gradients`` take ``decay_var_list``, the variables that shrink; None for all that have gradients.
    `minimize` without ``var_list`` counts all trainable variables to these, also those that the loss does not
    depend on, whose gradients are zeros: in TensorFlow these stay as they are.

    Args:
        base_optimizer: A class of optimizers of ``tf.train``.
    """

    class Shrinking(base_optimizer):  # type: ignore[misc, valid-type]
        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._weight_decay = weight_decay

        def minimize(
            self,
            loss: Any,
            global_step: keras.Variable | None = None,
            var_list: Iterable[keras.Variable] | None = None,
            *unused: object,
            decay_var_list: Iterable[keras.Variable] | None = None,
            name: str | None = None,
            **accepted: object,
        ) -> TrainOp:
            pairs = self.compute_gradients(loss, var_list)
            return self.apply_gradients(pairs, global_step, name, decay_var_list)

        def apply_gradients(
            self,
            grads_and_vars: Iterable[tuple[Any, keras.Variable]],
            global_step: keras.Variable | None = None,
            name: str | None = None,
            decay_var_list: Iterable[keras.Variable] | None = None,
            **options: Any,
        ) -> TrainOp:
            pairs = list(grads_and_vars)
            decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
            shrinking = None if decay_var_list is None else {id(each) for each in decay_var_list}
            step: Callable[[], TrainOp] = functools.partial(
                super().apply_gradients, pairs, global_step, name, **options
            )

            scope = current_scope()

            def take() -> TrainOp:
                with contextlib.nullcontext() if scope is None else scope.assignments.in_sync():
                    for gradient, variable in pairs:
                        if gradient is not None and (not shrinking or id(variable) in shrinking):
                            variable.assign(variable.value - decay * variable.value)
                return step()

            if scope is None:
                return take()
            return train_op_of(
                self.keras_optimizer.name,
                lambda: run_updates([take()]),
                held=path_of("") is not None,  # not in branches and loops
            )

    Shrinking.__name__ = Shrinking.__qualname__ = f"{base_optimizer.__name__}WithDecoupledWeightDecay"
    return Shrinking


class AdamWOptimizer(extend_with_decoupled_weight_decay(AdamOptimizer)):  # type: ignore[misc]
    """Adam, whose steps first subtract a part of each variable from it."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(extend_with_decoupled_weight_decay(MomentumOptimizer)):  # type: ignore[misc]
    """Momentum, whose steps first subtract a part of each variable from it."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)
