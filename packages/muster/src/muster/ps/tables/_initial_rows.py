"""Initial values of rows: functions of a row's id and a seed, so that every server makes the same ones."""

import math
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from muster.ps.tables._ids import GOLDEN, Ids, mixed

# How many rows are made at a time: what is computed in between takes several times their memory.
CHUNK = 1 << 14


class Constant(msgspec.Struct, frozen=True, tag="constant"):
    """Rows of one value."""

    value: float = 0.0

    def draw(self, ids: Ids, count: int) -> npt.NDArray[np.float64]:
        """Return values of shape (ids, count)."""
        return np.full((len(ids), count), self.value)


class Uniform(msgspec.Struct, frozen=True, tag="uniform"):
    """Rows of values between two bounds, all of them equally likely.

    The default is that of ``keras.layers.Embedding``.
    """

    low: float = -0.05
    high: float = 0.05
    seed: int = 0

    def draw(self, ids: Ids, count: int) -> npt.NDArray[np.float64]:
        """Return values of shape (ids, count)."""
        return self.low + (self.high - self.low) * _uniform(_keys(ids, self.seed), np.arange(count))


class Normal(msgspec.Struct, frozen=True, tag="normal"):
    """Rows of values of a normal distribution.

    Args:
        mean: The mean.
        stddev: The standard deviation of the whole distribution.
        truncated: Whether values beyond two standard deviations are drawn again.
        seed: The seed.
    """

    mean: float = 0.0
    stddev: float = 0.05
    truncated: bool = False
    seed: int = 0

    def draw(self, ids: Ids, count: int) -> npt.NDArray[np.float64]:
        """Return values of shape (ids, count)."""
        keys = _keys(ids, self.seed)
        drawn = _normal(keys, np.arange(count))
        attempt = 0
        while self.truncated and (beyond := np.abs(drawn) > 2).any():
            attempt += 1
            rows, places = np.nonzero(beyond)
            # Each element goes on in its own sequence, whatever is drawn beside it.
            drawn[rows, places] = _normal(keys[rows], places + attempt * count, paired=True)
        return self.mean + self.stddev * drawn


InitialRows: TypeAlias = Constant | Uniform | Normal


def make_rows(initial: InitialRows, ids: Ids, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return the initial rows of ids.

    Args:
        initial: How values are drawn.
        ids: The ids, of shape (n,).
        shape: The shape of a row.
        dtype: The dtype of the rows.

    Returns:
        An array of shape (n, *shape).
    """
    rows = np.empty((len(ids), *shape), dtype)
    count = math.prod(shape)
    for start in range(0, len(ids), CHUNK):
        some = ids[start : start + CHUNK]
        rows[start : start + CHUNK] = initial.draw(some, count).reshape(-1, *shape)
    return rows


def _keys(ids: Ids, seed: int) -> npt.NDArray[np.uint64]:
    return mixed(ids.view(np.uint64) + mixed(np.array([seed % 2**64], np.uint64)))


def _uniform(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], *, paired: bool = False
) -> npt.NDArray[np.float64]:
    """Return values in [0, 1): of each key at all places, or of pairs of one key and one place."""
    steps = (places.astype(np.uint64) + np.uint64(1)) * GOLDEN
    states = keys + steps if paired else keys[:, None] + steps
    drawn = (mixed(states) >> np.uint64(11)).astype(np.float64)
    drawn *= 2.0**-53
    return drawn


def _normal(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], *, paired: bool = False
) -> npt.NDArray[np.float64]:
    """Return values of the standard normal distribution, by the transformation of Box and Muller."""
    radius = np.sqrt(-2 * np.log1p(-_uniform(keys, 2 * places, paired=paired)))
    angle = 2 * np.pi * _uniform(keys, 2 * places + 1, paired=paired)
    return np.asarray(radius * np.cos(angle), np.float64)
