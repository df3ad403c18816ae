"""Whole numbers that a compiled step cannot take, because JAX has no 64-bit types unless they are enabled."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._integers import first_out_of_range


class Limits:
    """What JAX can hold of the whole numbers in arrays of some types.

    Args:
        leaves: the arrays that a step takes, the first time.

    Attributes:
        exist: whether there is anything to check.
    """

    def __init__(self, leaves: Sequence[Any]) -> None:
        whole = {i: leaf.dtype for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, np.integer)}
        self._limits = {
            i: np.iinfo(narrow)
            for i, dtype in whole.items()
            if (narrow := jax.dtypes.canonicalize_dtype(dtype)) != dtype
        }
        self.exist = bool(self._limits)

    def check(self, leaves: Sequence[Any], given: Any) -> None:
        """Refuse arrays with numbers beyond that.

        Args:
            leaves: the arrays of a step.
            given: the nested structure that they are from.

        Raises:
            DatasetError: if there is such a number.
        """
        for i, limits in self._limits.items():
            wrong = first_out_of_range(leaves[i], limits)
            if wrong is not None:
                path, _ = jax.tree_util.tree_leaves_with_path(given)[i]
                names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
                where = f" in {names[-1]!r}" if names else ""
                raise DatasetError(
                    f"What a step is given holds {wrong}{where}, a number of type {wrong.dtype} that does "
                    f"not fit into {limits.dtype}, which JAX uses in its place. Bring such numbers into "
                    "range with NumPy before (x % 2**31, say), leave them out if the step has no use for "
                    "them, or set jax_enable_x64."
                )
