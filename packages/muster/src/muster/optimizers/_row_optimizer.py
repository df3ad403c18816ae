"""Wrap a Keras optimizer so that it updates only the table rows that were looked up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import jax

from muster._keras import keras
from muster.optimizers import _update_rules
from muster.program import update_rows
from muster.program.gradients import in_this_step, whole_gradients
from muster.program.variables import whole_variables


@keras.saving.register_keras_serializable("muster")
class RowOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]  # keras is untyped
    """Updates variables by a rule; rows of tables that were not looked up stay as they are, with their slots.

    Args:
        learning_rate: A number, a schedule of Keras', or a function that returns the rate.
        rule: Takes a gradient, the weights, the slots and the rate; returns the new weights and slots. It
            computes each element from the same elements of its arguments.
        slots: The name and the initial value of each array that the optimizer keeps for a variable.
        **kwargs: Passed on to ``keras.optimizers.Optimizer``.
    """

    def __init__(
        self,
        learning_rate: Any,
        rule: Callable[..., tuple[jax.Array, ...]],
        slots: Mapping[str, float],
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self._rule = rule
        self._initial = dict(slots)
        self._slots: list[list[keras.Variable]] = [[] for _ in slots]

    def build(self, variables: list[keras.Variable]) -> None:
        """Create the slots of variables that have none, also of those that come later."""
        variables = whole_variables(variables)
        new = [each for each in variables if self._var_key(each) not in self._trainable_variables_indices]
        if new or not self.built:
            super().build([*self._trainable_variables, *new])
            for slots, (name, value) in zip(self._slots, self._initial.items(), strict=True):
                slots += self.add_optimizer_variables(new, name, keras.initializers.Constant(value))

    def apply(
        self, grads: Sequence[Any], trainable_variables: Iterable[keras.Variable] | None = None
    ) -> None:
        """Update the variables, as Keras does, which refuses any that the first call did not name."""
        optimizer = in_this_step(self)
        variables = None if trainable_variables is None else list(trainable_variables)
        if variables is not None:
            grads, variables = whole_gradients(grads, variables)
        if optimizer.built and variables is not None:
            with keras.name_scope(optimizer.name, caller=optimizer):
                optimizer.build(variables)
        super().apply(grads, variables)

    def update_step(self, gradient: jax.Array, variable: keras.Variable, learning_rate: Any) -> None:
        if gradient.shape != variable.shape:
            raise ValueError(
                f"The gradient of {variable.path} has shape {tuple(gradient.shape)}, and the variable has "
                f"shape {tuple(variable.shape)}. They must be the same."
            )
        index = self._get_variable_index(variable)
        updated = [variable, *(slots[index] for slots in self._slots)]
        gradient, *numbers = (
            keras.ops.cast(each, variable.dtype) for each in (gradient, *self.numbers(learning_rate))
        )
        made = self.updated(gradient, [each.value for each in updated], numbers)
        for each, value in zip(updated, made, strict=True):
            self.assign(each, value)

    def numbers(self, learning_rate: Any) -> Sequence[Any]:
        """Return the scalars that the rule takes after the slots: the rate."""
        return [learning_rate]

    def updated(
        self, gradient: jax.Array, values: Sequence[jax.Array], numbers: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        """Return the new weights and slots of a variable."""
        return update_rows(self._rule, gradient, values, numbers)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, as Keras does; a rule of muster's is a name and its own arguments."""
        rule = self._rule if isinstance(self._rule, partial) else partial(self._rule)
        name = rule.func.__name__
        ours = getattr(_update_rules, name, None) is rule.func
        config: dict[str, Any] = super().get_config()
        return config | {
            "rule": name if ours else rule.func,
            "rule_arguments": dict(rule.keywords),
            "slots": dict(self._initial),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        config = dict(config)
        if "rule_arguments" in config:
            rule, arguments = config["rule"], config.pop("rule_arguments")
            if isinstance(rule, str):
                rule = getattr(_update_rules, rule)
            config["rule"] = partial(rule, **arguments)
        made: Self = super().from_config(config, custom_objects)
        return made
