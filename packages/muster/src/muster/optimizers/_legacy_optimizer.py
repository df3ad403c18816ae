"""The base class of the optimizers of ``tf.keras.optimizers.legacy``."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from muster._keras import keras
from muster.optimizers._row_optimizer import RowOptimizer
from muster.program import TrainOp, minimize

_Schedule = keras.optimizers.schedules.LearningRateSchedule

# Lets Keras find the class of an optimizer that was saved with a model.
serializable = keras.saving.register_keras_serializable("muster")


class Optimizer(RowOptimizer):
    """An optimizer with the arguments and the meaning of TensorFlow's Keras before 2.11.

    Args:
        name: The optimizer's name.
        learning_rate: A number, a schedule, or a function without arguments.
        rule: See `RowOptimizer`.
        slots: See `RowOptimizer`.
        settings: The other arguments of the class, for ``get_config``.
        **kwargs: ``decay``: after n steps the rate is divided by ``1 + decay * n``. ``lr``: the rate.
            ``clipnorm``, ``clipvalue``, ``global_clipnorm``: how gradients are clipped.

    Source: keras/optimizers/legacy/optimizer_v2.py, ``OptimizerV2``.
    """

    def __init__(
        self,
        name: str,
        learning_rate: Any,
        rule: Callable[..., tuple[jax.Array, ...]],
        slots: Mapping[str, float],
        settings: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        decay = kwargs.pop("decay", 0.0)
        if decay < 0:
            raise ValueError(f"decay cannot be less than 0. Received: decay={decay}.")
        learning_rate = kwargs.pop("lr", learning_rate)
        unknown = kwargs.keys() - {"clipnorm", "clipvalue", "global_clipnorm"}
        if unknown:
            raise TypeError(
                f"{type(self).__name__} got unexpected keyword arguments {sorted(unknown)}: it takes those "
                "of its signature, and clipnorm, clipvalue, global_clipnorm, decay and lr."
            )
        super().__init__(learning_rate, rule, slots, name=name, **kwargs)
        self.decay = decay
        self._settings = dict(settings)
        self._clipping = kwargs

    @property
    def learning_rate(self) -> Any:
        """The learning rate, without ``decay``: a schedule itself, where Keras 3 returns its value now.

        Source: keras/optimizers/legacy/optimizer_v2.py, ``OptimizerV2._get_hyper``.
        """
        rate = self._learning_rate
        return rate if isinstance(rate, _Schedule) else super().learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        keras.optimizers.Optimizer.learning_rate.fset(self, value)

    @property
    def lr(self) -> Any:
        """The same as `learning_rate`."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    def _backend_update_step(
        self, grads: list[jax.Array], trainable_variables: list[keras.Variable], learning_rate: Any
    ) -> None:
        if isinstance(learning_rate, _Schedule):  # Keras passes on what `learning_rate` is
            learning_rate = super().learning_rate
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def numbers(self, learning_rate: Any) -> list[Any]:
        return [self.decayed(learning_rate)]

    def decayed(self, learning_rate: Any) -> Any:
        """Return the rate of this step."""
        if not self.decay:
            return learning_rate
        return learning_rate / (1 + self.decay * keras.ops.cast(self.iterations, "float32"))

    def minimize(
        self,
        loss: jax.Array | Callable[[], jax.Array],
        var_list: Iterable[keras.Variable] | Callable[[], Iterable[keras.Variable]] | None = None,
        grad_loss: None = None,
        name: str | None = None,
        tape: Any = None,
    ) -> TrainOp:
        """Take one step against the gradients of a loss, inside of a step.

        Args:
            loss: A floating-point array of shape (), per replica, or a function that returns one.
            var_list: The variables to train, or a function that returns them; None takes all trainable ones.
            grad_loss: Not supported.
            name: Unused.
            tape: Unused: any value of a step has gradients.
        """
        if grad_loss is not None:
            raise NotImplementedError("grad_loss is not supported: multiply the loss by it.")
        value = loss() if callable(loss) else loss
        return minimize(
            self, value, None, var_list() if callable(var_list) else var_list, loss_reduction="sum"
        )

    def get_config(self) -> dict[str, Any]:
        rate = self._learning_rate
        if isinstance(rate, _Schedule):
            rate = keras.optimizers.schedules.serialize(rate)
        elif isinstance(rate, keras.Variable):
            rate = float(rate.value)
        return {
            "name": self.name,
            "learning_rate": rate,
            "decay": self.decay,
            **self._settings,
            **self._clipping,
        }
