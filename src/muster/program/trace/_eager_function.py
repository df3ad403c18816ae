"""Run a function of variables that live outside of it on numbers, for debugging."""

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from muster.program._replicas import Replicas
from muster.program.trace._eager import eager_gradients
from muster.program.trace._function_scope import FunctionScope
from muster.program.variables._keras_internals import set_values, value_of


class EagerScope(FunctionScope):
    """Gives code the numbers that variables have, and collects assignments.

    Args:
        values: Values to use instead of variables' own, by the variables' ids.

    Attributes:
        found: Each variable that the code read or created, with its value at that time.
    """

    def __init__(self, values: Mapping[int, jax.Array]) -> None:
        super().__init__(may_create=True)
        self._values = values
        self.found: list[tuple[Any, jax.Array]] = []

    def replicas_of(self, strategy: Any, count: int, *, active: int) -> Replicas | None:
        if count > 1:
            raise ValueError(
                f"run_functions_eagerly(True) debugs one replica, and {strategy} has {count}. Use "
                "OneDeviceStrategy, or no strategy, to debug."
            )
        return super().replicas_of(strategy, count, active=active)

    def created(self, variable: Any, initializer: Any) -> None:
        super().created(variable, initializer)
        self._found(variable, self.state_mapping[id(variable)])

    def _local_value(self, variable: Any) -> jax.Array:
        if id(variable) not in self.state_mapping:
            value = self._values.get(id(variable), value_of(variable))
            self.add_found(variable, value)
            self._found(variable, value)
        return self.state_mapping[id(variable)]  # type: ignore[no-any-return]

    def _found(self, variable: Any, value: jax.Array) -> None:
        self.found.append((variable, value))
        self.state_mapping[id(variable)] = value


def run_eagerly(function: Callable[..., Any], args: Sequence[jax.Array]) -> Any:
    """Call ``function(*args)`` on numbers, and set the variables that it assigns to.

    The function runs once more for each gradient that it asks for; that later run sees tracers.

    Args:
        function: The function to call; after an error in it all variables are unchanged.
        args: Arrays.
    """
    scope, result = _run(function, args, {}, until=-1)
    variables = [variable for _, variable in scope.table.pairs]
    set_values(variables, [scope.state_mapping[id(variable)] for variable in variables])
    return result


def _run(
    function: Callable[..., Any], args: Sequence[jax.Array], values: Mapping[int, jax.Array], until: int
) -> tuple[EagerScope, Any]:
    scope = EagerScope(values)
    start = contextvars.copy_context()

    def leaves() -> list[jax.Array]:
        return [*args, *(value for _, value in scope.found)]

    def rerun(changed: list[jax.Array], until: int) -> None:
        """Run from the start, in the context variables of the start: this is called in mid-function."""
        pairs = zip(scope.found, changed[len(args) :], strict=True)
        others = {id(variable): value for (variable, _), value in pairs}
        start.copy().run(_run, function, changed[: len(args)], others, until)

    scope.eager_gradients = eager_gradients(leaves, rerun, until)
    return scope, scope.run(function, *args)
