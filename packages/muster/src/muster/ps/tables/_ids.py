"""Hash 64-bit ids, with the same result in every process and on every machine."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OWNER = np.uint64(0xD1B54A32D192ED03)


def mixed(bits: npt.NDArray[Any]) -> Bits:
    """Return numbers of 64 bits, each of which depends on all bits of the one given: those of SplitMix64.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    """
    mixed = bits.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def owners(ids: Ids, servers: int) -> npt.NDArray[np.int64]:
    """Return which of some servers holds each id of a hashed table.

    This is for ever: what a server has written is found by it again.

    Args:
        ids: The ids, of shape (n,).
        servers: How many servers there are.
    """
    # Apart from the bits by which each server's own index finds its ids.
    high = mixed(ids.view(np.uint64) ^ _OWNER) >> np.uint64(32)
    return (high * np.uint64(servers) >> np.uint64(32)).astype(np.int64)
