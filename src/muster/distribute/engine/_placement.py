"""Where the values of variables are: under a strategy, as soon as code of it uses them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muster.distribute.engine._own_values import OwnValues
from muster.program import ByIdentity, VariableSpec

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

Array = Any


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

    def own(self, variables: Sequence[tuple[VariableSpec, Any]]) -> list[Array]:
        """The values of this process' replicas, of variables that each has its own of.

        Args:
            variables: those.
        """
        return self._own.of(variables)

    def keep_own(self, variables: Sequence[tuple[VariableSpec, Any]], stacks: Sequence[Array]) -> None:
        """Keep what a step has made of the variables that each replica has its own of.

        Args:
            variables: those; they have been given what these come to.
            stacks: as ``own`` gives them.
        """
        self._own.keep(variables, stacks)
