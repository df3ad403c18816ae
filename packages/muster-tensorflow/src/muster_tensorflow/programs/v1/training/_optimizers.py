"""The optimizers of ``tf.compat.v1.train``, with its arguments and defaults, over those of Keras.

Source of the arguments and updates: tensorflow/python/training/, a file for each optimizer.
"""

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypeAlias

import jax

from muster import keras
from muster.extend import ProgramScope, current_scope
from muster.optimizers import RowOptimizer, rules
from muster.program import GradientTape, TrainOp, apply_gradients, minimize, replica_weight
from muster_tensorflow.library.ops._value_names import path_of
from muster_tensorflow.programs.v1.training._own_optimizers import GATE_OP, Optimizer

LearningRate: TypeAlias = (
    float | jax.Array | Callable[[], float | jax.Array] | keras.optimizers.schedules.LearningRateSchedule
)
"""A number, a value that the step computes, a function that returns one, or a schedule of Keras'."""


class KerasBacked(Optimizer):
    """Trains variables with a Keras optimizer.

    It may be built outside of a model_fn: each trace takes a new one of the same arguments.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note the arguments, for `copy`."""
        made = super().__new__(cls)
        made._arguments = args, kwargs
        return made

    def __init__(self, keras_optimizer: keras.optimizers.Optimizer) -> None:
        """Wrap a Keras optimizer."""
        super().__init__(False, str(keras_optimizer.name))
        self._keras_optimizer = keras_optimizer
        self._scope = _scope()

    @property
    def keras_optimizer(self) -> keras.optimizers.Optimizer:
        """The Keras optimizer; in a step that has not built this one, a new one of the same arguments."""
        scope = current_scope()
        if scope is None or scope is self._scope() or scope.may_use(self._keras_optimizer.variables[0]):
            return self._keras_optimizer
        made = scope.shared.setdefault(("tensorflow 1", "optimizers"), {})
        if id(self) not in made:
            made[id(self)] = self.copy()
        return made[id(self)]._keras_optimizer

    @property
    def variables(self) -> Any:
        """The optimizer's own variables, such as momenta, of training in eager code; also as a method."""
        return self._keras_optimizer.variables

    def copy(self) -> Self:
        """Return a new optimizer with the same arguments: each trace of a model_fn needs its own."""
        args, kwargs = self._arguments
        made = type(self)(*args, **kwargs)
        made._keras_optimizer.global_clipnorm = self._keras_optimizer.global_clipnorm
        return made

    def clipped(self, norm: float) -> Self:
        """Return a new optimizer with the same arguments that limits the norm of all gradients together."""
        made = self.copy()
        made._keras_optimizer.global_clipnorm = norm
        return made

    def minimize(
        self,
        loss: jax.Array,
        global_step: keras.Variable | None = None,
        var_list: Iterable[keras.Variable] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
    ) -> Any:
        """Take one step against the gradients of a loss, as `muster.minimize` does."""
        kind = type(self)
        if (kind.compute_gradients, kind.apply_gradients) != (
            KerasBacked.compute_gradients,
            KerasBacked.apply_gradients,
        ):
            return super().minimize(loss, global_step, var_list, name=name)
        if current_scope() is None:
            return self.apply_gradients(self.compute_gradients(loss, var_list), global_step, name)
        return minimize(self.keras_optimizer, loss, global_step, var_list, held=path_of("") is not None)

    def compute_gradients(
        self,
        loss: jax.Array,
        var_list: Iterable[keras.Variable] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
    ) -> list[tuple[jax.Array, keras.Variable]]:
        """Return the gradients of a loss; in a model_fn, those of replicas add up to that of their mean loss.

        Args:
            loss: A floating-point array of shape (), per replica; in eager code a function that returns it.
            var_list: The variables; None takes all trainable ones that were created so far, in eager code
                those that the function uses.
            gate_gradients: Accepted, as by `Optimizer.minimize`.
            aggregation_method: Accepted.
            colocate_gradients_with_ops: Accepted.

        Returns:
            Pairs of a gradient and its variable, as of `Optimizer.compute_gradients`.

        Raises:
            RuntimeError: In eager code, the loss is no function.

        Source: tensorflow/python/training/optimizer.py, ``Optimizer._scale_loss``.
        """
        if callable(loss):
            with GradientTape() as tape:
                value = loss()
            variables = list(tape.watched_variables() if var_list is None else var_list)
            return list(zip(tape.gradient(value, variables), variables, strict=True))
        if current_scope() is None:
            raise RuntimeError(
                "`loss` passed to Optimizer.compute_gradients should be a function in eager code."
            )
        share = replica_weight() if isinstance(current_scope(), ProgramScope) else 1.0
        return super().compute_gradients(loss if share == 1.0 else loss * share, var_list)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[jax.Array | None, keras.Variable]],
        global_step: keras.Variable | None = None,
        name: str | None = None,
        *,
        skip_gradients_aggregation: bool = False,
    ) -> TrainOp:
        """Take one step against gradients.

        Args:
            grads_and_vars: Pairs of a gradient and its variable; None leaves the variable as it is.
            global_step: The variable to count up by one, or None.
            name: Unused.
            skip_gradients_aggregation: Whether to apply the gradients as they are, the same on all replicas.

        Raises:
            ValueError: There are no pairs, or no gradients in them.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        present = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not present:
            names = ", ".join(variable.path for _, variable in pairs)
            raise ValueError(f"No gradients provided for any variable: {names}.")
        skips = skip_gradients_aggregation
        if current_scope() is None:
            self._keras_optimizer.apply(*zip(*present, strict=True))
            if global_step is not None:
                global_step.assign_add(1)
            return TrainOp(self._keras_optimizer.name)
        return apply_gradients(
            self.keras_optimizer,
            present,
            global_step,
            skip_gradients_aggregation=skips,
            held=path_of("") is not None,  # not in branches and loops
        )


class GradientDescentOptimizer(KerasBacked):
    """Gradient descent: ``w -= learning_rate * gradient``."""

    def __init__(
        self, learning_rate: LearningRate, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(keras.optimizers.SGD(_rate(learning_rate), name=name))


class MomentumOptimizer(KerasBacked):
    """Momentum: ``m = momentum * m + gradient; w -= learning_rate * m``.

    Keras' SGD multiplies by the learning rate within ``m``, which differs once the rate changes.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        momentum: float,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        rule = partial(rules.momentum, momentum=momentum, nesterov=use_nesterov)
        super().__init__(RowOptimizer(_rate(learning_rate), rule, {"momentum": 0.0}, name=name))


class AdagradOptimizer(KerasBacked):
    """Adagrad: ``a += gradient ** 2; w -= learning_rate * gradient / sqrt(a)``."""

    def __init__(
        self,
        learning_rate: LearningRate,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        slots = {"accumulator": _positive(initial_accumulator_value)}
        super().__init__(RowOptimizer(_rate(learning_rate), rules.adagrad, slots, name=name))


class AdamOptimizer(KerasBacked):
    """Adam, with the epsilon that the paper calls epsilon hat."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(keras.optimizers.Adam(_rate(learning_rate), beta1, beta2, epsilon, name=name))


class RMSPropOptimizer(KerasBacked):
    """RMSProp, whose mean of squares starts at one; Keras' starts at zero."""

    def __init__(
        self,
        learning_rate: LearningRate,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        rule = partial(rules.rmsprop, rho=decay, momentum=momentum, epsilon=epsilon, centered=centered)
        slots = {"velocity": 1.0}
        if momentum:
            slots["momentum"] = 0.0
        if centered:
            slots["average_gradient"] = 0.0
        super().__init__(RowOptimizer(_rate(learning_rate), rule, slots, name=name))


class AdadeltaOptimizer(KerasBacked):
    """Adadelta."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        rule = partial(rules.adadelta, rho=rho, epsilon=epsilon)
        slots = {"accumulated_grad": 0.0, "accumulated_delta_var": 0.0}
        super().__init__(RowOptimizer(_rate(learning_rate), rule, slots, name=name))


class FtrlOptimizer(KerasBacked):
    """FTRL-Proximal."""

    def __init__(
        self,
        learning_rate: LearningRate,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        rule = partial(
            rules.ftrl,
            power=learning_rate_power,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
            shrinkage=l2_shrinkage_regularization_strength,
            beta=beta or 0.0,
        )
        slots = {"accumulator": initial_accumulator_value, "linear": 0.0}
        super().__init__(RowOptimizer(_rate(learning_rate), rule, slots, name=name))


class ProximalGradientDescentOptimizer(KerasBacked):
    """Gradient descent, after which weights step towards zero as both regularizations say."""

    def __init__(
        self,
        learning_rate: LearningRate,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        rule = partial(
            rules.proximal_gradient_descent, l1=l1_regularization_strength, l2=l2_regularization_strength
        )
        super().__init__(RowOptimizer(_rate(learning_rate), rule, {}, name=name))


class ProximalAdagradOptimizer(KerasBacked):
    """Adagrad, after which weights step towards zero as both regularizations say."""

    def __init__(
        self,
        learning_rate: LearningRate,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        rule = partial(rules.proximal_adagrad, l1=l1_regularization_strength, l2=l2_regularization_strength)
        slots = {"accumulator": _positive(initial_accumulator_value)}
        super().__init__(RowOptimizer(_rate(learning_rate), rule, slots, name=name))


def _scope() -> Callable[[], Any]:
    """Return a function that returns the scope of the step that is being traced, while it exists."""
    scope = current_scope()
    return (lambda: None) if scope is None else weakref.ref(scope)


def _positive(initial_accumulator_value: float) -> float:
    if initial_accumulator_value <= 0:
        raise ValueError(f"initial_accumulator_value must be positive, got {initial_accumulator_value}.")
    return initial_accumulator_value


def _rate(learning_rate: LearningRate) -> Callable[..., object]:
    """Wrap a number in a function, because Keras would make it a variable, which checkpoints restore."""
    return learning_rate if callable(learning_rate) else lambda: learning_rate
