"""Adam, Adamax and Nadam of ``tf.keras.optimizers.legacy``.

Source: keras/optimizers/legacy/, a file for each.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from muster._keras import keras
from muster.optimizers import _update_rules as rules
from muster.optimizers._legacy_optimizer import Optimizer, serializable
from muster.program import update_rows


@serializable
class Adam(Optimizer):
    """Adam; its means decay, and step, for all rows of a table."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        settings: dict[str, Any] = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        slots = {"m": 0.0, "v": 0.0} | ({"vhat": 0.0} if amsgrad else {})
        rule = partial(rules.adam, **settings)
        super().__init__(name, learning_rate, rule, slots, {**settings, "amsgrad": amsgrad}, **kwargs)
        self.beta_1, self.beta_2 = beta_1, beta_2

    def numbers(self, learning_rate: Any) -> list[Any]:
        step = keras.ops.cast(self.iterations + 1, "float32")
        correction = keras.ops.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        return [self.decayed(learning_rate) * correction]

    def updated(
        self, gradient: jax.Array, values: Sequence[jax.Array], numbers: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        return self._rule(gradient, *values, *numbers)


@serializable
class Adamax(Optimizer):
    """Adamax."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Adamax",
        **kwargs: Any,
    ) -> None:
        settings: dict[str, Any] = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        slots = {"m": 0.0, "v": 0.0}
        super().__init__(name, learning_rate, partial(rules.adamax, **settings), slots, settings, **kwargs)
        self.beta_1 = beta_1

    def numbers(self, learning_rate: Any) -> list[Any]:
        step = keras.ops.cast(self.iterations + 1, "float32")
        return [self.decayed(learning_rate) / (1 - self.beta_1**step)]


@serializable
class Nadam(Optimizer):
    """Nadam; its means decay for all rows of a table, but only those that were looked up step."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        schedule_decay = kwargs.pop("schedule_decay", 0.004)
        settings: dict[str, Any] = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        slots, rule = {"m": 0.0, "v": 0.0}, partial(rules.nadam_step, epsilon=epsilon)
        super().__init__(name, learning_rate, rule, slots, settings, **kwargs)
        self._schedule_decay = schedule_decay
        self.beta_1, self.beta_2 = beta_1, beta_2

    def build(self, variables: list[keras.Variable]) -> None:
        first = not self.built
        super().build(variables)
        if first:
            self._momentum_cache = self.add_variable((), initializer="ones", name="momentum_cache")

    def _backend_update_step(
        self, grads: list[jax.Array], trainable_variables: list[keras.Variable], learning_rate: Any
    ) -> None:
        # Keras' own Nadam overrides this method, too, to do something once a step before all updates.
        self.assign(self._momentum_cache, self._momentum_cache * self._momentum_at(1))
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def _momentum_at(self, ahead: int) -> Any:
        """Return the momentum of the step that is so many steps after those that are done."""
        step = keras.ops.cast(self.iterations + ahead, "float32")
        return self.beta_1 * (1 - 0.5 * 0.96 ** (self._schedule_decay * step))

    def numbers(self, learning_rate: Any) -> list[Any]:
        step = keras.ops.cast(self.iterations + 1, "float32")
        now, following, product = self._momentum_at(1), self._momentum_at(2), self._momentum_cache
        return [
            self.decayed(learning_rate),
            (1 - now) / (1 - product),
            following / (1 - product * following),
            1 - self.beta_2**step,
        ]

    def updated(
        self, gradient: jax.Array, values: Sequence[jax.Array], numbers: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        weights, mean, squares = values
        mean = self.beta_1 * mean + (1 - self.beta_1) * gradient
        squares = self.beta_2 * squares + (1 - self.beta_2) * gradient**2
        made = update_rows(self._rule, gradient, [weights], [mean, squares, *numbers])
        return [*made, mean, squares]
