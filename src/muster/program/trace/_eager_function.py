"""A function of variables that live outside of it, run on numbers, for debugging."""

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.program.trace._eager import eager_gradients
from muster.program.trace._function_program import FunctionScope
from muster.program.variables._keras_internals import set_values, value_of
from muster.program.variables._replicas import Replicas
from muster.program.variables._watching import origin_of

Array = Any


class EagerScope(FunctionScope):
    """Gives code the numbers that variables have, and collects their updates.

    Args:
        values: the value of each variable, by its id, that is to have another one than it has.

    Attributes:
        found: each variable that the code read or created, and the value that it had then.
    """

    def __init__(self, values: Mapping[int, Array]) -> None:
        super().__init__(may_create=True)
        self._values = values
        self.found: list[tuple[Any, Array]] = []

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

    def _held(self, variable: Any) -> Array:
        if id(variable) not in self.state_mapping:
            value = self._values.get(id(variable), value_of(variable))
            self.register(self.spec_of(variable, origin_of(variable).kind, value.dtype), variable)
            self._found(variable, value)
        return self.state_mapping[id(variable)]

    def _found(self, variable: Any, value: Array) -> None:
        self.found.append((variable, value))
        self.state_mapping[id(variable)] = value


def run_eagerly(function: Callable[..., Any], args: Sequence[Array]) -> Any:
    """Call ``function(*args)`` on numbers, and give the variables that it assigns to their new values.

    The function runs once more for each gradient that it asks for, on tracers, after the numbers were seen.

    Args:
        function: what to call; after an error in it variables are as they were before.
        args: arrays.
    """
    scope, result = _run(function, args, {}, until=-1)
    variables = [variable for _, variable in scope.pairs]
    set_values(variables, [scope.state_mapping[id(variable)] for variable in variables])
    return result


def _run(
    function: Callable[..., Any], args: Sequence[Array], values: Mapping[int, Array], until: int
) -> tuple[EagerScope, Any]:
    scope = EagerScope(values)
    start = contextvars.copy_context()

    def leaves() -> list[Array]:
        return [*args, *(value for _, value in scope.found)]

    def again(changed: list[Array], until: int) -> None:
        """Run from the start, in the context of the start: this is in the middle of the function."""
        pairs = zip(scope.found, changed[len(args) :], strict=True)
        others = {id(variable): value for (variable, _), value in pairs}
        start.copy().run(_run, function, changed[: len(args)], others, until)

    scope.eager_gradients = eager_gradients(leaves, again, until)
    return scope, scope.run(function, *args)
