"""Packs: values that are reduced together in one collective."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Says which of the values that are reduced at one point share a collective.

    Attributes:
        bytes_per_pack: Values join a pack until it holds more than this; 0 for a single pack.
        num_packs: The number of equal parts into which a pack is cut; 0 makes a pack of every value.
    """

    bytes_per_pack: int = 0
    num_packs: int = 1

    @property
    def limit(self) -> int:
        """The bytes after which a pack is closed; 0 never closes one, and 1 does so after each value."""
        return self.bytes_per_pack if self.num_packs else 1

    def adding(self, add: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        """Return ``add``, which reduces a flat array in one collective, made to reduce it in parts."""
        return add if self.num_packs < 2 else functools.partial(_in_parts, add, self.num_packs)


ONE_PACK = Packing()


def _in_parts(add: Callable[[jax.Array], jax.Array], count: int, flat: jax.Array) -> jax.Array:
    """Reduce a flat array in parts of equal length; the last one takes the remainder.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``_ConcatAndSplitPacker``.
    """
    size = flat.size // count
    bounds = [number * size for number in range(count)] + [flat.size]
    parts = [flat[start:end] for start, end in zip(bounds, bounds[1:], strict=False) if end > start]
    return jnp.concatenate([add(part) for part in parts])
