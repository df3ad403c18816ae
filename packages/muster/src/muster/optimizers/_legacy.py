"""The optimizers of ``tf.keras.optimizers.legacy``.

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


@serializable
class SGD(Optimizer):
    """Gradient descent, with momentum if wanted, which does not decay for rows that were not looked up."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        if not 0 <= momentum <= 1:
            raise ValueError(f"`momentum` must be between [0, 1]. Received: momentum={momentum}.")
        settings: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov}
        rule = partial(rules.keras_momentum, **settings) if momentum else rules.gradient_descent
        slots = {"momentum": 0.0} if momentum else {}
        super().__init__(name, learning_rate, rule, slots, settings, **kwargs)


@serializable
class Adagrad(Optimizer):
    """Adagrad."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        if initial_accumulator_value < 0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}.")
        slots = {"accumulator": initial_accumulator_value}
        settings = {"initial_accumulator_value": initial_accumulator_value, "epsilon": epsilon}
        super().__init__(
            name, learning_rate, partial(rules.adagrad, epsilon=epsilon), slots, settings, **kwargs
        )


@serializable
class Adadelta(Optimizer):
    """Adadelta."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        settings: dict[str, Any] = {"rho": rho, "epsilon": epsilon}
        slots = {"accum_grad": 0.0, "accum_var": 0.0}
        super().__init__(name, learning_rate, partial(rules.adadelta, **settings), slots, settings, **kwargs)


@serializable
class RMSprop(Optimizer):
    """RMSprop; without momentum, the mean of squares decays for all rows of a table."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        if not 0 <= momentum <= 1:
            raise ValueError(f"`momentum` must be between [0, 1]. Received: momentum={momentum}.")
        settings: dict[str, Any] = {
            "rho": rho,
            "momentum": momentum,
            "epsilon": epsilon,
            "centered": centered,
        }
        slots = {"rms": 0.0}
        if momentum:
            slots["momentum"] = 0.0
        if centered:
            slots["mg"] = 0.0
        rule = rules.rmsprop if momentum else rules.keras_rmsprop
        super().__init__(name, learning_rate, partial(rule, **settings), slots, settings, **kwargs)
        self._by_rows = bool(momentum)

    def updated(
        self, gradient: jax.Array, values: Sequence[jax.Array], numbers: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        if self._by_rows:
            return super().updated(gradient, values, numbers)
        return self._rule(gradient, *values, *numbers)


@serializable
class Ftrl(Optimizer):
    """FTRL-Proximal."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        settings = {
            "learning_rate_power": learning_rate_power,
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
            "beta": beta,
        }
        for name_of, value in settings.items():
            if name_of == "learning_rate_power":
                if value > 0:
                    raise ValueError(f"`learning_rate_power` must be <= 0. Received: {value}.")
            elif name_of != "beta" and value < 0:
                raise ValueError(f"`{name_of}` must be >= 0. Received: {value}.")
        rule = partial(
            rules.ftrl,
            power=learning_rate_power,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
            shrinkage=l2_shrinkage_regularization_strength,
            beta=beta,
        )
        slots = {"accumulator": initial_accumulator_value, "linear": 0.0}
        super().__init__(name, learning_rate, rule, slots, settings, **kwargs)
