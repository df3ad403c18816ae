"""Pack values into shared all-reduces (gradient bucketing)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Groups values that are reduced at the same point into all-reduces (gradient bucketing).

    Attributes:
        bytes_per_pack: A pack is closed once it holds more bytes than this; 0 for a single pack.
        num_packs: The number of equal parts into which a pack is cut, each with an all-reduce; 0 for an
            all-reduce per value.
    """

    bytes_per_pack: int = 0
    num_packs: int = 1

    @property
    def limit(self) -> int:
        """The bytes after which a pack is closed; 0 never closes one, and 1 does so after each value."""
        return self.bytes_per_pack if self.num_packs else 1

    def adding(self, all_reduce: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        """Make an all-reduce of a flat array one of its ``num_packs`` parts."""
        return all_reduce if self.num_packs < 2 else functools.partial(_in_parts, all_reduce, self.num_packs)


ONE_PACK = Packing()


def _in_parts(all_reduce: Callable[[jax.Array], jax.Array], count: int, flat: jax.Array) -> jax.Array:
    """Reduce a flat array in parts of equal length; the last one takes the remainder.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``_ConcatAndSplitPacker``.
    """
    size = flat.size // count
    bounds = [number * size for number in range(count)] + [flat.size]
    parts = [flat[start:end] for start, end in zip(bounds, bounds[1:], strict=False) if end > start]
    return jnp.concatenate([all_reduce(part) for part in parts])
