"""Collect the values that a step returns by name."""

import jax
import jax.numpy as jnp

from muster.program._replicas import Replicas


class NamedOutputs:
    """The values that leave a step by name.

    Attributes:
        summaries: Tag -> the name of the output to write as a summary.
    """

    def __init__(self) -> None:
        self.summaries: dict[str, str] = {}
        self._values: dict[str, jax.Array | None] = {}  # None: the name is reserved

    def reserve(self, *names: str) -> None:
        """Reserve names that `add` must not use."""
        self._values.update(dict.fromkeys(names))

    def add(self, name: str, value: jax.Array) -> str:
        """Add a value, and return its name: `name`, with ``_1``, ``_2``, … appended if it is taken."""
        unique, count = name, 0
        while unique in self._values:
            count += 1
            unique = f"{name}_{count}"
        self._values[unique] = value
        return unique

    def name_of(self, value: object) -> str | None:
        """Return the name of a value, if this very value has one."""
        return next((name for name, known in self._values.items() if known is value), None)

    def values(self, replicas: Replicas | None = None) -> dict[str, jax.Array]:
        """Return the value of each name. Scalar floats are averaged over the replicas, others are not."""
        values = {name: value for name, value in self._values.items() if value is not None}
        if replicas is not None:
            scalars = [n for n, v in values.items() if v.ndim == 0 and jnp.issubdtype(v.dtype, jnp.inexact)]
            values.update(zip(scalars, replicas.mean([values[n] for n in scalars]), strict=True))
        return values
