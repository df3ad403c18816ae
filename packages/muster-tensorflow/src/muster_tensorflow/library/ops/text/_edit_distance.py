"""``tf.edit_distance``: how many elements of sequences differ."""

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from muster.data import SparseTensor
from muster.program import SparseRows
from muster_tensorflow.library.ops._operation import operation

_Sequences = dict[tuple[int, ...], list[object]]


@operation
def edit_distance(
    hypothesis: SparseTensor, truth: SparseTensor, normalize: bool = True, name: str | None = None
) -> npt.NDArray[np.float32] | jax.Array:
    """Return the least number of insertions, deletions and substitutions that turn one sequence into another.

    In a step sequences are the rows of matrices.

    Args:
        hypothesis: Sequences along the last axis, of shape (..., longest).
        truth: Likewise, of the same rank.
        normalize: Whether to divide by the lengths of `truth`; of an empty one it is infinite, 0 if both are.
        name: Unused.

    Returns:
        An array without the last axis, whose sizes are the larger ones of both.

    Raises:
        ValueError: The ranks differ.

    Source: tensorflow/core/kernels/edit_distance_op.cc.
    """
    if isinstance(hypothesis, SparseRows) or isinstance(truth, SparseRows):
        rows = [each if isinstance(each, SparseRows) else SparseRows.of(each) for each in (hypothesis, truth)]
        return _of_rows(rows[0], rows[1], normalize)
    ours, theirs = np.asarray(hypothesis.dense_shape), np.asarray(truth.dense_shape)
    if ours.shape != theirs.shape:
        raise ValueError(f"hypothesis has {ours.size} axes, truth {theirs.size}: both must have the same.")
    found, expected = _sequences(hypothesis), _sequences(truth)
    distances = np.zeros(np.maximum(ours, theirs)[:-1], np.float32)
    for place in found.keys() | expected.keys():
        first, second = found.get(place, []), expected.get(place, [])
        distance = float(_distance(first, second))
        if normalize:
            distance = distance / len(second) if second else np.inf  # both are never empty here
        distances[place] = distance
    return distances


def _sequences(sparse: SparseTensor) -> _Sequences:
    """Return the elements by the places of their sequences."""
    sequences: _Sequences = {}
    for (*place, _), value in zip(
        np.asarray(sparse.indices).tolist(), np.asarray(sparse.values), strict=True
    ):
        sequences.setdefault(tuple(place), []).append(value)
    return sequences


def _distance(first: list[object], second: list[object]) -> int:
    row = list(range(len(second) + 1))
    for count, mine in enumerate(first, 1):
        corner, row[0] = row[0], count
        for column, other in enumerate(second, 1):
            best = min(corner + (mine != other), row[column] + 1, row[column - 1] + 1)
            corner, row[column] = row[column], best
    return row[-1]


def _of_rows(first: SparseRows, second: SparseRows, normalize: bool) -> jax.Array:
    """Return the distances of the rows of matrices that a step has."""
    mine, others = first.by_rows(0), second.by_rows(0)
    count, lengths = jnp.asarray(first.row_lengths), jnp.asarray(second.row_lengths)
    places = jnp.arange(others.shape[1] + 1)

    def add(row: jax.Array, element: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        number, values = element
        changed = row[:, :-1] + (values[:, None] != others)
        best = jnp.concatenate([row[:, :1] + 1, jnp.minimum(changed, row[:, 1:] + 1)], axis=1)
        # Insertions: each place is at most one more than the one before it.
        best = jax.lax.cummin(best - places, axis=1) + places
        return jnp.where(number < count[:, None], best, row), None

    start = jnp.broadcast_to(places, (mine.shape[0], len(places)))
    last, _ = jax.lax.scan(add, start, (jnp.arange(mine.shape[1]), mine.T))
    distances = jnp.take_along_axis(last, lengths[:, None], axis=1)[:, 0].astype("float32")
    if not normalize:
        return distances
    return jnp.where(lengths > 0, distances / jnp.maximum(lengths, 1), jnp.where(count > 0, jnp.inf, 0.0))
