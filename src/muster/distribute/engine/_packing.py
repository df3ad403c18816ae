"""Packs: which values travel in one collective."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

Array = Any


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Which of the values that meet at one place travel in one collective.

    Attributes:
        bytes_per_pack: values join a pack until it holds more than this; 0 for a single one.
        num_packs: into how many parts of equal length a pack is cut; 0 gives every value a pack of its own.
    """

    bytes_per_pack: int = 0
    num_packs: int = 1

    @property
    def limit(self) -> int:
        """``bytes_per_pack``, or what gives every value a pack of its own."""
        return self.bytes_per_pack if self.num_packs else 1

    def adding(self, add: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """What adds a flat array, given what adds one in a single collective."""
        return add if self.num_packs < 2 else functools.partial(_in_parts, add, self.num_packs)


ONE_PACK = Packing()


def _in_parts(add: Callable[[Array], Array], count: int, flat: Array) -> Array:
    """Add a flat array in parts of equal length; the last one takes what is left.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``_ConcatAndSplitPacker``.
    """
    size = flat.size // count
    bounds = [number * size for number in range(count)] + [flat.size]
    parts = [flat[start:end] for start, end in zip(bounds, bounds[1:], strict=False) if end > start]
    return jnp.concatenate([add(part) for part in parts])
