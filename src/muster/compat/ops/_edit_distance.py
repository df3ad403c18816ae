"""``tf.edit_distance``: how many elements of sequences differ."""

import numpy as np
import numpy.typing as npt

from muster.compat.ops._operation import operation
from muster.data import SparseTensor

_Sequences = dict[tuple[int, ...], list[object]]


@operation
def edit_distance(
    hypothesis: SparseTensor, truth: SparseTensor, normalize: bool = True, name: str | None = None
) -> npt.NDArray[np.float32]:
    """Return the least number of insertions, deletions and substitutions that turn one sequence into another.

    On the host: both sparse tensors must be known.

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
