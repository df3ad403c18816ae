"""``tf.keras.utils.split_dataset``, whose datasets are muster's: Keras makes them with TensorFlow's."""

from typing import Any

import jax
import numpy as np

from muster.data import Dataset


def split_dataset(
    dataset: Any,
    left_size: float | int | None = None,
    right_size: float | int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Dataset, Dataset]:
    """Divide the elements of a dataset between two.

    Args:
        dataset: A Dataset, which is read to its end and kept in memory, or arrays of equal length, in any
            structure.
        left_size: A share of the elements, from 0 to 1, or a number of them; None is what the other leaves.
        right_size: Likewise for the second dataset.
        shuffle: Whether to shuffle the elements before.
        seed: Of the shuffle.

    Raises:
        ValueError: A size is missing, or is more than there is.

    Source: keras/src/utils/dataset_utils.py.
    """
    if left_size is None and right_size is None:
        raise ValueError("At least one of left_size and right_size is needed, got None for both.")
    if isinstance(dataset, Dataset):
        # Both datasets have the elements of this pass, also of one that shuffles anew in each.
        dataset = dataset.cache()
        total = sum(1 for _ in dataset)
        dataset = dataset.assert_cardinality(total)
    else:
        dataset = jax.tree.map(np.asarray, dataset, is_leaf=lambda each: isinstance(each, list))
        total = len(jax.tree.leaves(dataset)[0])
        dataset = Dataset.from_tensor_slices(dataset)
    left, right = _count(left_size, total, "left_size"), _count(right_size, total, "right_size")
    if left is None:
        left = total - (right or 0)
    elif right is None:
        right = total - left
    if left + (right or 0) > total:
        raise ValueError(f"left_size and right_size are {left} and {right} of {total} elements in all.")
    if shuffle:
        dataset = dataset.shuffle(total, seed, reshuffle_each_iteration=False)
    return dataset.take(left), dataset.skip(left).take(right)


def _count(size: float | int | None, total: int, name: str) -> int | None:
    """Return how many elements a size is."""
    if size is None:
        return None
    if isinstance(size, float) and not 0 <= size <= 1 or size < 0 or size > total:
        raise ValueError(f"{name} is a share from 0 to 1, or a number of the {total} elements, got {size!r}.")
    return round(size * total) if isinstance(size, float) else int(size)
