"""Run steps untraced, for debugging, and compute gradients of such code."""

import contextvars
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import GradientError
from muster.program._replicas import Replicas
from muster.program.trace._function_scope import FunctionScope
from muster.program.variables.keras_internals import set_values, value_of

_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    This applies to the whole process, as in TensorFlow.

    Args:
        run_eagerly: True to run steps untraced, False to compile them again.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.

    Example:
        ```python
        muster.config.run_functions_eagerly(True)  # print and breakpoints see numbers
        muster.config.run_functions_eagerly(False)
        ```
    """
    global _eager
    _eager = run_eagerly


def functions_run_eagerly() -> bool:
    """Return whether steps run untraced."""
    return _eager


# From which opening of a tape on (0: from the start) which arrays, by their ids, are others.
Changes = Sequence[tuple[int, Mapping[int, jax.Array]]]


class EagerRun:
    """A run of code on numbers, which computes the gradients that the code asks for by further runs.

    For each gradient the code runs again under ``jax.grad``, up to the place that asks for it. Until the tape
    is opened there, variables have their numbers: what is computed of these is constant.

    Args:
        leaves: Returns the arrays that the code began with so far: its arguments, and variables' values.
        rerun: Runs the code with changes, up to the gradient of some number.
        until: The number of the gradient at which this run ends; -1 for none.
        changes: Which of the arrays this run has others for.
    """

    def __init__(
        self,
        leaves: Callable[[], tuple[Sequence[jax.Array], Sequence[jax.Array]]],
        rerun: Callable[[Changes, int], object],
        until: int,
        changes: Changes,
    ) -> None:
        self._leaves = leaves
        self._rerun = rerun
        self._until = until
        self._changes = changes
        self._openings = 0
        self._calls = itertools.count()

    def current(self, value: jax.Array) -> jax.Array:
        """Return what stands for an array now."""
        for opening, changed in self._changes:
            if opening <= self._openings:
                value = changed.get(id(value), value)
        return value

    def opened(self, values: dict[int, jax.Array]) -> int:
        """Let the variables have the values of a tape that is opened now, and return its number.

        Args:
            values: The variables' present values, which this changes.
        """
        self._openings += 1
        values.update({key: self.current(value) for key, value in values.items()})
        return self._openings

    def gradients(self, total: jax.Array, sources: list[jax.Array], since: int | None) -> list[jax.Array]:
        """Return the gradients of a number.

        Args:
            total: The number.
            sources: Some of the arrays that the code began with.
            since: The number of the tape that is asked; None for gradients of all the code.

        Raises:
            GradientError: A source is another array.
        """
        call, (args, variables) = next(self._calls), self._leaves()
        if call == self._until:
            raise _Reached(total)
        inputs = [self.current(value) for value in (*args, *variables)]
        places = [next((i for i, leaf in enumerate(inputs) if leaf is s), None) for s in sources]
        if None in places:
            raise GradientError(
                f"A source of gradients, of shape {tuple(sources[places.index(None)].shape)}, was "
                "computed or assigned in this step. Run eagerly, gradients are with respect to "
                "variables that the step has not changed yet, or to its input. Turn "
                "run_functions_eagerly off for this model."
            )

        def total_of(values: list[jax.Array]) -> jax.Array:
            changed: list[dict[int, jax.Array]] = [{}, {}]
            for place, value in zip(places, values, strict=True):
                changed[place >= len(args)][id(inputs[place])] = value  # type: ignore[operator, index]
            try:
                self._rerun((*self._changes, (0, changed[0]), (since or 0, changed[1])), call)
            except _Reached as reached:
                return reached.total
            raise GradientError("Run eagerly a second time, the step asked for other gradients.")

        grads: list[jax.Array] = jax.grad(total_of)(sources)
        return grads


class _Reached(Exception):
    """Ends an eager run at the gradient that it was started for, and carries its target."""

    def __init__(self, total: jax.Array) -> None:
        self.total = total


class EagerScope(FunctionScope):
    """Gives code the variables' concrete values, and collects assignments.

    Args:
        values: Values that variables began with in the first run, by the variables' ids.

    Attributes:
        found: Each variable that the code read or created, with the value that it began with.
        eager: This run.
    """

    eager: EagerRun

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
        value = self.bindings.values.setdefault(id(variable), value_of(variable))
        self.found.append((variable, value))

    def _local_value(self, variable: Any) -> jax.Array:
        if id(variable) not in self.bindings.values:
            value = self._values.get(id(variable), value_of(variable))
            if any(value is other for _, other in self.found):
                value = jnp.copy(value)  # variables are told apart by their arrays
            self.add_found(variable, value)
            self.found.append((variable, value))
            self.bindings.values[id(variable)] = self.eager.current(value)
        return self.bindings.values[id(variable)]


def run_eagerly(function: Callable[..., Any], args: Sequence[jax.Array]) -> Any:
    """Call ``function(*args)`` on numbers, and set the variables that it assigns to.

    The function runs once more for each gradient that it asks for; that later run sees tracers.

    Args:
        function: The function to call; after an error in it all variables are unchanged.
        args: Arrays.
    """
    scope, result = _run(function, args, {}, (), until=-1)
    variables = [variable for _, variable in scope.bindings.table.pairs]
    set_values(variables, [scope.bindings.values[id(variable)] for variable in variables])
    return result


def _run(
    function: Callable[..., Any],
    args: Sequence[jax.Array],
    values: Mapping[int, jax.Array],
    changes: Changes,
    until: int,
) -> tuple[EagerScope, Any]:
    scope = EagerScope(values)
    start = contextvars.copy_context()

    def leaves() -> tuple[Sequence[jax.Array], Sequence[jax.Array]]:
        return args, [value for _, value in scope.found]

    def rerun(changes: Changes, until: int) -> None:
        """Run from the start, in the context variables of the start: this is called in mid-function."""
        others = {id(variable): value for variable, value in scope.found}
        start.copy().run(_run, function, args, others, changes, until)

    scope.eager = scope.mode.eager = EagerRun(leaves, rerun, until, changes)
    return scope, scope.run(function, *map(scope.eager.current, args))
