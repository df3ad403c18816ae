"""Run steps untraced, for debugging, and compute gradients of such code."""

import contextvars
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from muster._errors import GradientError
from muster.program._replicas import Replicas
from muster.program.trace._function_scope import FunctionScope
from muster.program.variables._keras_internals import set_values, value_of

_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    This applies to the whole process, as in TensorFlow.

    Args:
        run_eagerly: True to run steps untraced, False to compile them again.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.
    """
    global _eager
    _eager = run_eagerly


def functions_run_eagerly() -> bool:
    """Return whether steps run untraced."""
    return _eager


def eager_gradients(
    leaves: Callable[[], list[jax.Array]], rerun: Callable[[list[jax.Array], int], None], until: int
) -> Callable[[jax.Array, list[jax.Array]], list[jax.Array]]:
    """Make a function that computes gradients of code that runs on numbers.

    For each gradient, the code runs again under ``jax.grad``, up to the place that asks for it.

    Args:
        leaves: Returns the inputs of the code so far, the possible sources of gradients.
        rerun: Runs the code on other leaves, up to the gradient of some number.
        until: The number of the gradient at which this run must end; -1 for none.

    Returns:
        A function of a target and of some of the leaves that returns the target's gradients.
    """
    calls = itertools.count()

    def gradients(total: jax.Array, sources: list[jax.Array]) -> list[jax.Array]:
        call, inputs = next(calls), leaves()
        if call == until:
            raise _Reached(total)
        places = [next((i for i, leaf in enumerate(inputs) if leaf is s), None) for s in sources]
        if None in places:
            raise GradientError(
                f"A source of gradients, of shape {tuple(sources[places.index(None)].shape)}, was "
                "computed or assigned in this step. Run eagerly, gradients are with respect to "
                "variables that the step has not changed yet, or to its input. Turn "
                "run_functions_eagerly off for this model."
            )

        def total_of(values: list[jax.Array]) -> jax.Array:
            replaced = dict(zip(places, values, strict=True))
            try:
                rerun([replaced.get(i, leaf) for i, leaf in enumerate(inputs)], call)
            except _Reached as reached:
                return reached.total
            raise GradientError("Run eagerly a second time, the step asked for other gradients.")

        grads: list[jax.Array] = jax.grad(total_of)(sources)
        return grads

    return gradients


class _Reached(Exception):
    """Ends an eager run at the gradient that it was started for, and carries its target."""

    def __init__(self, total: jax.Array) -> None:
        self.total = total


class EagerScope(FunctionScope):
    """Gives code the variables' concrete values, and collects assignments.

    Args:
        values: Values to use instead of variables' own, by the variables' ids.

    Attributes:
        found: Each variable that the code read or created, with its value at that time.
    """

    def __init__(self, values: Mapping[int, jax.Array]) -> None:
        super().__init__(may_create=True)
        self._values = values
        self.found: list[tuple[Any, jax.Array]] = []

    def replicas_of(
        self, strategy: Any, count: int, *, active: int, sizes: tuple[int, ...] | None = None
    ) -> Replicas | None:
        if count > 1:
            raise ValueError(
                f"run_functions_eagerly(True) debugs one replica, and {strategy} has {count}. Use "
                "OneDeviceStrategy, or no strategy, to debug."
            )
        return super().replicas_of(strategy, count, active=active, sizes=sizes)

    def created(self, variable: Any, initializer: Any) -> None:
        super().created(variable, initializer)
        value = self.state_mapping.setdefault(id(variable), value_of(variable))
        self.found.append((variable, value))

    def _local_value(self, variable: Any) -> jax.Array:
        if id(variable) not in self.state_mapping:
            value = self._values.get(id(variable), value_of(variable))
            self.add_found(variable, value)
            self.found.append((variable, value))
            self.state_mapping[id(variable)] = value
        return self.state_mapping[id(variable)]  # type: ignore[no-any-return]


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
