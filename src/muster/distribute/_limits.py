"""Whole numbers that a step cannot compute with, because JAX has no 64-bit types unless they are enabled."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster.data import first_beyond


class Limits:
    """What JAX can hold of the whole numbers in arrays like these.

    Beyond that it keeps the last 32 bits of a number, and says nothing.

    Args:
        leaves: the arrays of a batch.
    """

    def __init__(self, leaves: Sequence[Any]) -> None:
        whole = {
            i: leaf.dtype
            for i, leaf in enumerate(leaves)
            if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "iu"
        }
        self._limits = {
            i: np.iinfo(narrow)
            for i, dtype in whole.items()
            if (narrow := jax.dtypes.canonicalize_dtype(dtype)) != dtype
        }

    def check(self, batch: Any, leaves: Sequence[Any]) -> None:
        """Refuse a batch with numbers beyond that.

        Args:
            batch: a nested structure of arrays, to name the one that holds such a number.
            leaves: its arrays.

        Raises:
            DatasetError: if it has one.
        """
        for i, limits in self._limits.items():
            wrong = first_beyond(leaves[i], limits)
            if wrong is not None:
                path, _ = jax.tree_util.tree_leaves_with_path(batch)[i]
                raise DatasetError(
                    f"{jax.tree_util.keystr(path).removeprefix('.')} of a batch holds {wrong}, a number of "
                    f"type {wrong.dtype} that does not fit into {limits.dtype}, which JAX uses in its place. "
                    "Bring such numbers into range in the input pipeline, with NumPy (x % 2**31, say), or "
                    "set jax_enable_x64."
                )
