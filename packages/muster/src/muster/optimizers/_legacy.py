"""SGD, Adagrad, Adadelta, RMSprop and Ftrl of ``tf.keras.optimizers.legacy``.

Source: keras/optimizers/legacy/, a file for each.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from muster.optimizers import _update_rules as rules
from muster.optimizers._legacy_optimizer import Optimizer, serializable


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
