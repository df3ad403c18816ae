"""The values of the variables that a function uses: taken for each call, and given back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from muster.program import (
    FunctionProgram,
    combined_path,
    origin_of,
    set_values,
    unshared_values,
    values_of,
)

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

Array = Any


class FunctionState:
    """Takes the values of a function's variables to where a strategy wants them, and gives back new ones.

    Several replicas overwrite all variables and return them, so that those are where they are used from then
    on. One replica leaves alone what it only reads: to hand 160 arrays through a program takes 130 µs.

    Args:
        program: the function.
        strategy: whose replicas it runs on; None for none.

    Attributes:
        changes: the paths of variables whose values a step may overwrite, and returns.
        reads: of those that it only reads.
        own: of those that each replica has a value of its own of.
        combined: of what those come to that the function assigns to.
    """

    def __init__(self, program: FunctionProgram[Any], strategy: "Strategy | None") -> None:
        several = strategy is not None and strategy.num_replicas_in_sync > 1
        shared = {spec.path: variable for spec, variable in program.used if not spec.own}
        changes = {path: v for path, v in shared.items() if several or path in program.assigned}
        reads = {path: v for path, v in shared.items() if path not in changes}
        own = [(spec, variable) for spec, variable in program.used if spec.own]
        combined = {combined_path(spec.path): v for spec, v in own if spec.path in program.assigned}
        self.changes, self.reads, self.combined = tuple(changes), tuple(reads), tuple(combined)
        self.own = tuple(spec.path for spec, _ in own)
        self._changes, self._reads = list(changes.values()), list(reads.values())
        self._own, self._combined = own, list(combined.values())
        self._strategy = strategy
        self._sharding = None if strategy is None else strategy.sharding
        self._right: list[jax.sharding.Sharding] = []

    def place_new(self, created: Sequence[Any]) -> None:
        """Let variables that are new to the strategy have the values, and be where, it wants them.

        Args:
            created: those that the function created; it need not use those of the strategy's scope.
        """
        if self._strategy is not None:
            shared, others = [*self._changes, *self._reads], [variable for _, variable in self._own]
            known = {id(variable) for variable in (*shared, *others)}
            mine = [variable for variable in created if origin_of(variable).owner is self._strategy]
            others += [variable for variable in mine if id(variable) not in known]
            # Of values that are held elsewhere, what is placed could be the same buffer.
            values = [*unshared_values(shared), *values_of(others)]
            set_values([*shared, *others], self._strategy.placement.place_new([*shared, *others], values))

    def take(self) -> tuple[list[Array], list[Array]]:
        """The values of ``changes`` and of ``own``, to be overwritten; and those of ``reads``."""
        state, reads = unshared_values(self._changes), values_of(self._reads)
        if self._sharding is not None:
            # Mostly the same objects as the last time, of which a list need not ask whether they are equal.
            found = [value.sharding for value in (*state, *reads)]
            if found != self._right and any(sharding != self._sharding for sharding in found):
                state, reads = self._moved(state), self._moved(reads)
                set_values(self._reads, reads)
            else:
                self._right = found
        if self._own and self._strategy is not None:
            state += self._strategy.placement.own(self._own)
        return state, reads

    def _moved(self, values: list[Array]) -> list[Array]:
        """Values where the strategy wants them."""
        return [v if v.sharding == self._sharding else jax.device_put(v, self._sharding) for v in values]

    def give(self, state: Sequence[Array]) -> None:
        """Let the variables have what a step has made of ``changes``, ``own`` and ``combined``."""
        set_values(self._changes, state)
        if self._own and self._strategy is not None:
            own = len(self._changes)
            combined = own + len(self._own)
            set_values(self._combined, state[combined:])
            self._strategy.placement.keep_own(self._own, state[own:combined])
