"""Where the values of variables are: under a strategy, as soon as code of it uses them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from muster.distribute._own_values import OwnValues
from muster.program import ByIdentity, VariableSpec

if TYPE_CHECKING:
    from muster.distribute._strategy import Strategy

Array = Any
State = dict[str, Array]


class VariablePlacement:
    """Puts the values of variables where a strategy wants them.

    Args:
        strategy: whose replicas use them.
    """

    def __init__(self, strategy: "Strategy") -> None:
        self._strategy = strategy
        self._own = OwnValues(strategy)
        self._seen: ByIdentity[bool] = ByIdentity()

    def place_new(self, variables: Sequence[Any], values: Sequence[Array]) -> list[Array]:
        """Values of variables; of those that are new to the strategy, as its ``place`` gives them."""
        fresh = [i for i, variable in enumerate(variables) if variable not in self._seen]
        if not fresh:
            return list(values)
        placed = self._strategy.place({str(i): values[i] for i in fresh})
        for i in fresh:
            self._seen[variables[i]] = True
        return [placed.get(str(i), value) for i, value in enumerate(values)]

    def placed(self, variables: Sequence[tuple[VariableSpec, Any]], state: State) -> State:
        """The state of a step: values of variables where they live; of new ones, the chief's.

        Args:
            variables: what is known of each, and the variable.
            state: path -> value of each, global.
        """
        fresh = [(spec.path, variable) for spec, variable in variables if variable not in self._seen]
        if fresh:
            values = self.place_new([variable for _, variable in fresh], [state[path] for path, _ in fresh])
            state = state | dict(zip([path for path, _ in fresh], values, strict=True))
        sharding = self._strategy.sharding
        if sharding is None:
            return state
        moved = {
            path: value
            for path, value in state.items()
            if value.sharding is not sharding and value.sharding != sharding
        }
        return state | jax.device_put(moved, sharding) if moved else state

    def own(self, variables: Sequence[tuple[VariableSpec, Any]], state: State) -> State:
        """path -> the values of this process' replicas, of variables that each has its own of.

        Args:
            variables: those.
            state: path -> value, global.
        """
        return self._own.of(variables, state)

    def keep_own(self, variables: Sequence[tuple[VariableSpec, Any]], before: State, after: State) -> None:
        """Keep what a step has made of the variables that each replica has its own of.

        Args:
            variables: those.
            before: path -> value before the step, global.
            after: the state that the step returned.
        """
        self._own.keep(variables, before, after)
