"""Refuses 64-bit integers that JAX would truncate to 32 bits, as it does unless jax_enable_x64 is set."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._arrays import AnyArray
from muster._errors import DatasetError
from muster._integers import first_out_of_range


class Limits:
    """The range of integers that JAX holds for each array of a step.

    Args:
        leaves: The arrays of a step; later ones have the same dtypes.

    Attributes:
        exist: Whether any array can hold integers beyond its range.
    """

    def __init__(self, leaves: Sequence[AnyArray]) -> None:
        integers = {i: leaf.dtype for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, np.integer)}
        self._limits = {
            i: np.iinfo(narrow)
            for i, dtype in integers.items()
            if (narrow := jax.dtypes.canonicalize_dtype(dtype)) != dtype
        }
        self.exist = bool(self._limits)

    def check(self, leaves: Sequence[AnyArray], batch: Any) -> None:
        """Check that the integers of a step are in range.

        Args:
            leaves: The arrays of the step.
            batch: The nested structure of these arrays.

        Raises:
            DatasetError: One is out of range.
        """
        for i, limits in self._limits.items():
            wrong = first_out_of_range(leaves[i], limits)
            if wrong is not None:
                path, _ = jax.tree_util.tree_leaves_with_path(batch)[i]
                names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
                where = f" in {names[-1]!r}" if names else ""
                raise DatasetError(
                    f"The input of a step holds {wrong}{where}, a number of type {wrong.dtype} that does "
                    f"not fit into {limits.dtype}, which JAX uses in its place. Bring such numbers into "
                    "range with NumPy before (x % 2**31, say), leave them out if the step has no use for "
                    "them, or set jax_enable_x64."
                )
