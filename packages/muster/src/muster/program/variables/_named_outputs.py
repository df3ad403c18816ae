"""Collect the values that a step returns by name."""

from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp

from muster.program._replicas import Replicas


class NamedOutputs:
    """The values that leave a step by name, and those that may.

    Attributes:
        summaries: Tag -> the handle of the output to write as a summary.
        offered: Name -> value that leaves the step only if it is wanted.
        wanted: The names of offered values that leave the step.
    """

    def __init__(self) -> None:
        self.summaries: dict[str, Any] = {}
        self.offered: dict[str, jax.Array] = {}
        self.wanted: Collection[str] = ()
        self._values: dict[str, jax.Array | None] = {}  # None: the name is reserved

    def reserve(self, *names: str) -> None:
        """Reserve names that `add` must not use."""
        self._values.update(dict.fromkeys(names))

    def add(self, name: str, value: jax.Array) -> str:
        """Add a value, and return its name: `name`, with ``_1``, ``_2``, … appended if it is taken."""
        unique = self._free(name)
        self._values[unique] = value
        return unique

    def offer(self, name: str, value: jax.Array) -> str:
        """Offer a value, which costs nothing unless it is wanted; names as for `add`."""
        unique = self._free(name)
        self.offered[unique] = value
        return unique

    def name_of(self, value: object) -> str | None:
        """Return the name of a value, if this very value has one."""
        return next((name for name, known in self._values.items() if known is value), None)

    def values(self, replicas: Replicas | None = None) -> dict[str, jax.Array]:
        """Return the value of each name, the wanted ones as this replica has them.

        Of the others, scalar floats are averaged over the replicas. Wanted values are not, because replicas
        in other processes need not return them.
        """
        values = {name: value for name, value in self._values.items() if value is not None}
        if replicas is not None:
            scalars = [n for n, v in values.items() if v.ndim == 0 and jnp.issubdtype(v.dtype, jnp.inexact)]
            values.update(zip(scalars, replicas.mean([values[n] for n in scalars]), strict=True))
        return values | {name: self.offered[name] for name in self.wanted}

    def _free(self, name: str) -> str:
        unique, count = name, 0
        while unique in self._values or unique in self.offered:
            count += 1
            unique = f"{name}_{count}"
        return unique
